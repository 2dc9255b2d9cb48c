"""Sentences → entity mentions."""
