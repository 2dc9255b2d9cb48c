"""Sentence pairs with mentions and links → CLISM examples (CLISM, section 3.1)."""
