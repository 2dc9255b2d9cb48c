"""A page's wikitext → plain text with its links."""
