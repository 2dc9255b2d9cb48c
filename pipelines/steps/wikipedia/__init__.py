"""Reads Wikipedia dumps: pages, their titles, and the table of titles."""
