"""Parallel corpora → sentence pairs."""
