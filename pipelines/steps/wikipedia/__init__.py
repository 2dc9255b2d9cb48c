"""Wikipedia dumps → pages, titles and the table of titles."""
