"""Checks a command's settings and inputs before torch is imported."""
