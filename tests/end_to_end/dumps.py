"""Small Wikipedia dumps in the form in which Wikimedia exports them."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

SITEINFO = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="{lang}">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>{lang}wiki</dbname>
    <base>https://{lang}.wikipedia.org/wiki/Main_Page</base>
    <generator>MediaWiki 1.44.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">File</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""


class WikiPage(NamedTuple):
    title: str
    text: str
    namespace: int = 0
    redirect: str = ""


def page_xml(number: int, page: WikiPage) -> str:
    redirect = f"    <redirect title={quoteattr(page.redirect)} />\n" if page.redirect else ""
    return (
        f"  <page>\n    <title>{escape(page.title)}</title>\n    <ns>{page.namespace}</ns>\n    <id>{number}</id>\n"
        f"{redirect}    <revision>\n      <id>{number * 10}</id>\n"
        f'      <text xml:space="preserve">{escape(page.text)}</text>\n    </revision>\n  </page>\n'
    )


def write_dump(path: Path, pages: Sequence[WikiPage], lang: str = "en", pages_per_stream: int = 0) -> Path:
    """A dump; with `pages_per_stream`, one of many bzip2 streams as Wikimedia's "multistream" files are."""
    xml = [page_xml(number, page) for number, page in enumerate(pages, 1)]
    parts = [SITEINFO.format(lang=lang)]
    step = pages_per_stream or len(xml) or 1
    parts += ["".join(xml[start : start + step]) for start in range(0, len(xml), step)]
    parts.append("</mediawiki>\n")
    encoded = [part.encode() for part in parts]
    if pages_per_stream:
        path.write_bytes(b"".join(map(bz2.compress, encoded)))
    elif path.suffix == ".bz2":
        path.write_bytes(bz2.compress(b"".join(encoded), 1))
    else:
        path.write_bytes(b"".join(encoded))
    return path
