"""Turns a page's wikitext into plain text with its links."""
