"""Finished runs → tables, curves and an HTML page."""
