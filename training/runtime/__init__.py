"""Errors, ranks, atomic writing and output folders, which all other packages of the trainer may import."""
