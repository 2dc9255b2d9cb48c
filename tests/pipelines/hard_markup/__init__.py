"""Hard markup: wikitext and what a reader sees of it, written from MediaWiki's rules.

Sources: mediawiki.org's Help:Links, Help:Formatting, Help:Tables, Help:Templates, Preprocessor ABNF, Language Converter
and the link trails that each wiki's siteinfo reports. Project choices beyond MediaWiki: one paragraph, heading or list
item a line; tables, templates (but those that only style their text), parser functions, references, formulas, galleries
and files are left out.
"""

from . import blocks, dropped, inline, links, namespaces, trails
from .sites import SITEINFO
from .snippet import Link, Snippet

SNIPPETS = trails.SNIPPETS + links.SNIPPETS + namespaces.SNIPPETS + blocks.SNIPPETS + dropped.SNIPPETS + inline.SNIPPETS

__all__ = ["SITEINFO", "SNIPPETS", "Link", "Snippet"]
