"""Finds the entity mentions of sentences."""
