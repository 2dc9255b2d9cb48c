"""Dumps of Wikipedia: every page once however a file is cut; what is said of files that are damaged or no dumps."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.wikipedia import bz2_blocks, dump, xml_pages
from pipelines.steps.wikipedia.bz2_blocks import read_blocks
from pipelines.steps.wikipedia.dump import Damage, DumpRange, Page, plan_ranges, read_pages, read_siteinfo
from pipelines.steps.wikitext.site import SiteInfo
from schemas.errors import InputError

SITEINFO = """\
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>swwiki</dbname>
    <base>https://sw.wikipedia.org/wiki/Mwanzo</base>
    <generator>MediaWiki 1.41</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="-2" case="first-letter">Faili &amp; picha</namespace>
      <namespace key="0" case="first-letter" />
      <namespace key="14" case="first-letter">Jamii</namespace>
      <namespace case="case-sensitive" key="2302">Gadget definition</namespace>
    </namespaces>
  </siteinfo>
"""
HEAD = f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="sw">\n{SITEINFO}'
END = "</mediawiki>\n"


def page_xml(page_id: int, title: str, text: str, redirect: str | None = None) -> str:
    redirect_xml = "" if redirect is None else f"    <redirect title={quoteattr(redirect)} />\n"
    return f"""\
  <page>
    <title>{escape(title)}</title>
    <ns>0</ns>
    <id>{page_id}</id>
{redirect_xml}    <revision>
      <id>{page_id + 1000}</id>
      <parentid>7</parentid>
      <contributor>
        <username>Anna</username>
        <id>77</id>
      </contributor>
      <comment>[[a]] &lt;page&gt;</comment>
      <text bytes="{len(text.encode())}" xml:space="preserve">{escape(text, {'"': "&quot;"})}</text>
    </revision>
  </page>
"""


def dump_of(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + END).encode()


def numbered(*texts: str) -> bytes:
    """A dump of pages 1, 2, … with these texts."""
    return dump_of(*(page_xml(number, f"Ukurasa {number}", text) for number, text in enumerate(texts, 1)))


def in_streams(xml: bytes, bounds: list[int], level: int = 9) -> bytes:
    """A multistream bzip2 file with a stream for every part of the text."""
    return b"".join(bz2.compress(xml[start:end], level) for start, end in pairwise([0, *bounds, len(xml)]))


COMPRESS = {
    "dump.xml": bytes,
    "dump.xml.gz": gzip.compress,
    "dump.xml.bz2": bz2.compress,
    "multistream.xml.bz2": lambda xml: in_streams(xml, [1000, len(xml) // 2, len(xml) - 13]),
    "dump.xml.xz": lzma.compress,
    "dump.xml.zst": zstandard.compress,
}


@pytest.fixture
def write(tmp_path):
    def write(content: bytes | str, name: str = "dump.xml") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def read_whole(path: str) -> list[Page | Damage]:
    return list(read_pages(DumpRange(path, 0, Path(path).stat().st_size)))


def read_in_ranges(path: str, bounds: list[int]) -> list[Page | Damage]:
    ends = pairwise([0, *bounds, Path(path).stat().st_size])
    return [page for start, end in ends for page in read_pages(DumpRange(path, start, end))]


def read_planned(path: str, range_bytes: int) -> list[Page | Damage]:
    return [page for part in plan_ranges(path, range_bytes) for page in read_pages(part)]


def pages_by_expat(xml: io.BufferedIOBase) -> Iterator[Page]:
    """The oracle: the same pages from an XML parser, as far as it comes."""
    site: dict[str, int] = {}
    try:
        for _, element in ElementTree.iterparse(xml):
            element.tag = element.tag.rpartition("}")[2]
            if element.tag == "siteinfo":
                site = {name.text or "": int(name.get("key")) for name in element.iter("namespace")}
            if element.tag == "page":
                title, ns, redirect = element.findtext("title"), element.findtext("ns"), element.find("redirect")
                revision = element.findall("revision")[-1]
                yield Page(
                    int(element.findtext("id")),
                    int(revision.findtext("id")),
                    int(ns) if ns else site.get(title.partition(":")[0], 0),
                    title,
                    redirect.get("title") if redirect is not None else None,
                    revision.findtext("text") or "",
                )
                element.clear()
    except ElementTree.ParseError:
        return


# --- pages, however the file is stored and cut ------------------------------------------------------------------------

RANDOM = random.Random(1)


def prose(length: int) -> str:
    return "".join(RANDOM.choices("abcdefgh <>&\"'[]ởé東😀\n", k=length))


SMALL = numbered("moja", "", prose(400), "x" * 3000, "&lt; &amp;amp; <page></page>", *(prose(40) for _ in range(10)))
# Blocks of 100,000 bytes: pages of several blocks, and blocks of several pages.
LARGE = numbered(*(prose(length) for length in [30_000, 250_000, *[9000] * 12, 120_000, 5]))


@pytest.mark.parametrize("name", COMPRESS)
def test_pages_are_those_that_an_xml_parser_finds(write, name):
    path = write(COMPRESS[name](SMALL), name)
    pages = read_whole(path)
    assert pages == list(pages_by_expat(io.BytesIO(SMALL)))
    assert [page.page_id for page in pages] == list(range(1, 16))
    assert pages[4].text == "&lt; &amp;amp; <page></page>"


@pytest.mark.parametrize("level", [1, 9, None])
def test_ranges_give_every_page_once_and_in_order(write, level):
    path = write(
        LARGE if level is None else bz2.compress(LARGE, level), "dump.xml" if level is None else "dump.xml.bz2"
    )
    pages = read_whole(path)
    assert len(pages) == 16
    size = Path(path).stat().st_size
    for count in (1, 2, 3, 5, 8, 13, 40):
        parts = plan_ranges(path, -(-size // count))
        assert len(parts) == count
        assert [page for part in parts for page in read_pages(part)] == pages


def test_ranges_that_begin_at_blocks_give_every_page_once(write):
    path = write(bz2.compress(LARGE, 1), "dump.xml.bz2")
    pages = read_whole(path)
    starts = [block.start for block in read_blocks(io.BytesIO(Path(path).read_bytes()), 0)]
    assert len(starts) > 5
    assert read_in_ranges(path, starts) == pages
    assert read_in_ranges(path, [start + 1 for start in starts]) == pages


@given(st.data())
def test_tags_may_be_cut_by_blocks_and_ranges_anywhere(tmp_path_factory, data):
    xml = numbered("a", "bb", "")
    places = st.integers(xml.index(b"<page>") - 2, len(xml)) | st.sampled_from(
        [at + offset for tag in (b"<page>", b"</page>") for at in _places(tag, xml) for offset in range(8)]
    )
    streams = in_streams(xml, sorted(data.draw(st.lists(places, max_size=12))))
    path = tmp_path_factory.mktemp("cut") / "dump.xml.bz2"
    path.write_bytes(streams)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(streams)), max_size=6)))
    assert read_in_ranges(str(path), bounds) == list(pages_by_expat(io.BytesIO(xml)))


@given(st.lists(st.integers(0, len(numbered("a", "bb", ""))), max_size=6).map(sorted), st.integers(1, 50))
def test_plain_files_may_be_cut_anywhere(tmp_path_factory, bounds, read_bytes):
    xml = numbered("a", "bb", "")
    path = tmp_path_factory.mktemp("cut") / "dump.xml"
    path.write_bytes(xml)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump, "READ_BYTES", read_bytes)
        assert read_in_ranges(str(path), bounds) == list(pages_by_expat(io.BytesIO(xml)))


def _places(tag: bytes, xml: bytes) -> list[int]:
    return [at for at in range(len(xml)) if xml.startswith(tag, at)]


def test_ranges_cover_the_file_and_only_what_can_be_split(write):
    path = write(SMALL)
    size = len(SMALL)
    for range_bytes in (1, 100, size - 1, size, size + 1):
        parts = plan_ranges(path, range_bytes)
        assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == size
        assert max(part.end - part.start for part in parts) <= range_bytes
        assert len(parts) == -(-size // range_bytes)
    for name in ("dump.xml.gz", "dump.xml.xz", "dump.xml.zst"):
        path = write(COMPRESS[name](SMALL), name)
        assert plan_ranges(path, 10) == [DumpRange(path, 0, Path(path).stat().st_size)]


def test_remote_dump_is_read_in_ranges():
    filesystem = pytest.importorskip("apache_beam.io.filesystem")
    stored = {"dumpmem://b/dump.xml.bz2": in_streams(SMALL, [2000, 4000]), "dumpmem://b/dump.xml": SMALL}

    class MemoryFileSystem(filesystem.FileSystem):
        scheme = classmethod(lambda cls: "dumpmem")

        def open(self, path, mime_type="", compression_type="auto"):
            return io.BytesIO(stored[path])

    MemoryFileSystem.__abstractmethods__ = frozenset()  # writing and looking up are not what is tested
    for path in stored:
        parts = plan_ranges(path, len(stored[path]) // 3)
        assert len(parts) > 2
        assert [page for part in parts for page in read_pages(part)] == list(pages_by_expat(io.BytesIO(SMALL)))
        assert read_siteinfo(path).dbname == "swwiki"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.bz2"])
def test_utf_16_is_read_in_one_range(write, encoding, name):
    xml = '<?xml version="1.0" encoding="UTF-16"?>\n' + numbered("moja ở 😀", "mbili").decode().replace("\n", "\r\n")
    path = write(COMPRESS[name](xml.encode(encoding)), name)
    assert len(plan_ranges(path, 100)) == 1
    assert [page.text for page in read_planned(path, 100)] == ["moja ở 😀", "mbili"]
    assert read_siteinfo(path).dbname == "swwiki"


def test_no_more_than_a_page_is_held(write):
    pages = 1200
    path = write(bz2.compress(numbered(*["".join(map(str, range(2500)))] * pages)), "dump.xml.bz2")
    tracemalloc.start()
    try:
        assert sum(1 for part in plan_ranges(path, 1 << 30) for _ in read_pages(part)) == pages
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000  # of 12 MB of XML: a block, what has been read of the file, and a page


def test_page_that_never_ends_is_not_held_either(write, monkeypatch):
    monkeypatch.setattr(xml_pages, "MAX_PAGE_BYTES", 1 << 20)
    path = write(numbered("x" * 12_000_000, "b"))
    tracemalloc.start()
    try:
        damage, page = read_planned(path, 5_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (damage.reason, page.text) == ("page_too_long", "b")
    assert peak < 6_000_000


@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.bz2"])
def test_range_reads_on_to_the_end_of_its_last_page_and_no_further(write, monkeypatch, name):
    monkeypatch.setattr(dump, "READ_BYTES", 1 << 12)
    monkeypatch.setattr(bz2_blocks, "READ_BYTES", 1 << 12)
    xml = numbered(*["x" * 5000] * 4, prose(200_000), prose(200_000))
    stored = xml if name == "dump.xml" else in_streams(xml, list(range(5000, len(xml), 5000)))
    path = write(stored, name)
    read_to = 0

    class Watched(io.FileIO):
        def read(self, size: int = -1) -> bytes:
            nonlocal read_to
            data = super().read(size)
            read_to = max(read_to, self.tell())
            return data

    monkeypatch.setattr(dump, "open_raw", Watched)
    first, *_ = read_in_ranges(path, [])
    assert read_to == len(stored)
    read_to = 0
    start = xml.index(b"<page>") if name == "dump.xml" else 0
    assert list(read_pages(DumpRange(path, start, start + 10))) == [first]
    assert read_to < start + 20_000


# --- fields of a page -------------------------------------------------------------------------------------------------


def test_fields_of_a_page(write):
    xml = page_xml(12, "Jamii:Watu & mahali", "#REDIRECT [[x]]", redirect='B "c" & d')
    path = write(dump_of(xml.replace("<ns>0<", "<ns>14<")))
    assert read_whole(path) == [Page(12, 1012, 14, "Jamii:Watu & mahali", 'B "c" & d', "#REDIRECT [[x]]")]


@pytest.mark.parametrize(
    "text_xml, text",
    [
        ("<text>a</text>", "a"),
        ("<text></text>", ""),
        ("<text />", ""),
        ('<text xml:space="preserve" />', ""),
        ('<text bytes="0" sha1="phoiac9h4m842xq45sp7s6u21eteeq1" xml:space="preserve" />', ""),
        ('<text deleted="deleted" />', ""),
        ('<text bytes="9" deleted="deleted" />', ""),
        ("<text xml:space='preserve' bytes='1'\n>a</text>", "a"),
        ("<text>  a\n\n b\t</text>", "  a\n\n b\t"),
        ("<text>a\r\nb\rc&#13;d</text>", "a\nb\nc\rd"),
        ("<text>&lt;b&gt; &amp;nbsp; &quot;&apos;</text>", "<b> &nbsp; \"'"),
        ("<text>&amp;lt; &amp;#65; &amp;amp;</text>", "&lt; &#65; &amp;"),
        ("<text>&#10;&#233;&#x1F600;&#xe9;&amp;lt;</text>", "\né😀é&lt;"),
        ("<text><![CDATA[<b> & ]]></text>", "<b> & "),
        ("<text>a > b ] \u2028\u0085\ufeff</text>", "a > b ] \u2028\u0085\ufeff"),
    ],
)
def test_text_is_what_xml_says(write, text_xml, text):
    xml = dump_of(page_xml(1, "A", "KEEP")).replace(b"KEEP", b"")
    start, stop = xml.index(b"<text"), xml.index(b"</text>") + len("</text>")
    xml = xml[:start] + text_xml.encode() + xml[stop:]
    [page] = read_whole(write(xml))
    assert page == Page(1, 1001, 0, "A", None, text)
    assert [page] == list(pages_by_expat(io.BytesIO(xml)))


def test_the_last_revision_of_a_history_is_taken(write):
    revisions = "".join(
        f"<revision><id>{number}</id><contributor><id>5</id></contributor><text>v{number}</text></revision>"
        for number in (20, 21, 35)
    )
    path = write(dump_of(f"<page><title>A</title><ns>0</ns><id>3</id>{revisions}</page>"))
    assert read_whole(path) == [Page(3, 35, 0, "A", None, "v35")]


def test_main_slot_of_schema_0_11_is_the_text(write):
    xml = page_xml(1, "A", "main").replace(
        "</text>", "</text><content><role>mediainfo</role><text>other</text></content><sha1>x</sha1>"
    )
    assert [page.text for page in read_whole(write(dump_of(xml)))] == ["main"]


@pytest.mark.parametrize(
    "title, redirect_xml, text, namespace, redirect",
    [
        ("Watu", "", "x [[y]]", 0, None),
        ("Jamii:Watu", "", "x", 14, None),
        ("Faili & picha:Watu", "", "x", -2, None),
        ("Star Trek: Picard", "", "x", 0, None),
        ("A", "<redirect />", "#ELEKEZA [[B c|d]] [[e]]", 0, "B c"),
        ("A", "", "#REDIRECT [[B#c]]", 0, "B#c"),
        ("A", "<redirect />", "#ELEKEZA", 0, None),
    ],
)
def test_old_schemas_without_ns_and_redirect_titles(write, title, redirect_xml, text, namespace, redirect):
    xml = page_xml(1, title, text).replace("    <ns>0</ns>\n", redirect_xml)
    assert read_whole(write(dump_of(xml))) == [Page(1, 1001, namespace, title, redirect, text)]


@pytest.mark.parametrize(
    "old, new, reason, detail",
    [
        ("<title>A</title>", "", "bad_page", "a page without title: .*<title>"),
        ("<id>1</id>", "", "bad_page", "'A': invalid literal for int"),
        ("<id>1001</id>", "<id>one</id>", "bad_page", "'A': .*'one'"),
        ("text", "body", "bad_page", "'A': .*<text>"),
        ("revision>", "upload>", "bad_page", "'A': .*<revision>"),
        ("body", "bo<i>d</i>y", "bad_page", "'A': .*no markup"),
        ("body", "bo<i>dy", "bad_page", "'A': mismatched tag: line 13"),
        ("body", "fish & chips", "bad_page", "'A': .*invalid token"),
        ("body", "&nbsp;", "bad_page", "'A': undefined entity"),
        ("body", "&#0;", "bad_page", "'A': .*invalid character"),
        ("body", "bo\0dy", "bad_page", "'A': .*invalid token"),
        ("body", "\udc80", "invalid_utf8", "'A': .*invalid token"),
        (">body</text>", " />", "text_missing", "'A': .*A stub dump.*pages-articles"),
        ('bytes="4" xml:space="preserve">body</text>', 'id="9" />', "text_missing", "'A': .*A stub dump"),
    ],
)
def test_page_that_is_not_as_mediawiki_writes_it_is_named_and_no_other_is_lost(write, old, new, reason, detail):
    xml = page_xml(1, "A", "body").replace(old, new).encode(errors="surrogateescape")
    following = page_xml(2, "B", "b").encode()
    [damage, page] = read_whole(write(HEAD.encode() + xml + following + END.encode()))
    assert isinstance(damage, Damage) and damage.reason == reason
    assert re.search(detail, damage.detail), damage.detail
    assert page == Page(2, 1002, 0, "B", None, "b")


@pytest.mark.parametrize("read_bytes", [10, 700, 1 << 20])
def test_page_that_is_too_long_is_skipped(write, monkeypatch, read_bytes):
    monkeypatch.setattr(dump, "READ_BYTES", read_bytes)
    texts = ["a", "x" * 2000, "b", "y" * 1500]
    path = write(numbered(*texts))
    monkeypatch.setattr(xml_pages, "MAX_PAGE_BYTES", len(page_xml(4, "Ukurasa 4", texts[3]).strip()) - len("</page>"))
    pages = read_whole(path)
    assert [page.reason if isinstance(page, Damage) else page.page_id for page in pages] == [1, "page_too_long", 3, 4]
    assert "'Ukurasa 2'" in pages[1].detail
    assert read_planned(path, 500) == pages


# --- damaged files ----------------------------------------------------------------------------------------------------


def test_page_without_end_is_cut_where_another_begins(write):
    first, second, third = page_xml(1, "A", "a"), page_xml(2, "B", "b"), page_xml(3, "C", "c")
    path = write(dump_of(first, second[:200], third))
    pages = read_whole(path)
    assert [page.title for page in pages[::2]] == ["A", "C"]
    assert pages[1] == Damage("cut_page", "the page 'B' has no end: another begins inside it")
    for range_bytes in (37, 100, 300):
        assert read_planned(path, range_bytes) == pages


@pytest.mark.parametrize("name", COMPRESS)
def test_truncated_file_gives_every_page_that_it_has_and_says_so(write, name):
    stored = COMPRESS[name](LARGE if "bz2" not in name else b"")
    if name == "dump.xml.bz2":
        stored = bz2.compress(LARGE, 1)
    elif "bz2" in name:
        stored = in_streams(LARGE, list(range(0, len(LARGE), 50_000))[1:])
    pages = list(pages_by_expat(io.BytesIO(LARGE)))
    path = write(stored[: len(stored) * 2 // 3], name)
    found = read_whole(path)
    whole = [page for page in found if isinstance(page, Page)]
    assert 3 < len(whole) < 16
    assert whole == pages[: len(whole)]
    assert found[len(whole) :][0].reason == "cut_page"
    [last] = found[len(whole) + 1 :]
    assert last.reason == ("truncated" if name.endswith((".xml", ".bz2")) else "unreadable_rest")
    assert read_planned(path, len(stored) // 7) == found


@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.gz", "dump.xml.bz2", "multistream.xml.bz2"])
def test_file_that_ends_between_pages_is_truncated_too(write, name):
    path = write(COMPRESS[name](SMALL.removesuffix(END.encode())), name)
    pages = read_whole(path)
    assert len(pages) == 16
    assert pages[-1] == Damage("truncated", "the file ends without </mediawiki>: pages may be missing")
    for range_bytes in (20, 100, 1000):
        assert read_planned(path, range_bytes) == pages


@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.bz2"])
def test_truncation_is_said_once_by_the_range_that_holds_the_end(write, name):
    xml = numbered("a", "b" * 5000)[:-200]
    path = write(xml if name == "dump.xml" else in_streams(xml, list(range(1500, len(xml), 500))), name)
    assert [page.reason for page in read_whole(path)[1:]] == ["cut_page", "truncated"]
    assert read_planned(path, Path(path).stat().st_size // 5) == read_whole(path)


@pytest.mark.parametrize("level", [1, None])
def test_corrupt_bzip2_block_costs_the_pages_that_touch_it(write, level):
    stored = bz2.compress(LARGE, level) if level else in_streams(LARGE, list(range(0, len(LARGE), 70_000))[1:])
    blocks = list(read_blocks(io.BytesIO(stored), 0))
    before = sum(len(block.data) for block in blocks[:4])
    after = before + len(blocks[4].data)
    damaged = bytearray(stored)
    damaged[blocks[4].start + 5000] ^= 1
    path = write(bytes(damaged), "dump.xml.bz2")
    expected: list[Page | str] = []
    for page in pages_by_expat(io.BytesIO(LARGE)):
        start = LARGE.index(f"<title>{page.title}<".encode()) - len("<page>\n    ")
        end = LARGE.index(b"</page>", start) + len(b"</page>")
        if end <= before or start >= after:
            expected.append(page)
        elif start < before:
            expected += ["cut_page", "corrupt_block"]
    found = read_whole(path)
    assert [item.reason if isinstance(item, Damage) else item for item in found] == expected
    assert 8 < len(expected) < 18 and "cut_page" in expected
    assert f"at byte {blocks[4].start} " in found[expected.index("corrupt_block")].detail
    for bounds in ([blocks[4].start], [blocks[4].start + 1], [blocks[3].start, blocks[4].start + 6000]):
        assert read_in_ranges(path, bounds) == found


def test_damaged_xz_is_read_up_to_the_damage(write):
    pages = [prose(50_000) for _ in range(12)]
    damaged = bytearray(lzma.compress(numbered(*pages), preset=0))
    damaged[len(damaged) * 3 // 4] ^= 0xFF
    *whole, cut, damage = read_whole(write(bytes(damaged), "dump.xml.xz"))
    assert 3 < len(whole) < 12
    assert [page.text for page in whole] == pages[: len(whole)]
    assert (cut.reason, damage.reason) == ("cut_page", "unreadable_rest")
    assert "the xz data are damaged" in damage.detail


# --- heads, and files that are no dumps -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPRESS)
def test_siteinfo(write, name):
    expected = SiteInfo(
        "Wikipedia",
        "swwiki",
        "https://sw.wikipedia.org/wiki/Mwanzo",
        True,
        ((-2, "Faili & picha"), (0, ""), (14, "Jamii"), (2302, "Gadget definition")),
    )
    assert read_siteinfo(write(COMPRESS[name](SMALL), name)) == expected


def test_siteinfo_of_old_and_odd_exports(write):
    assert read_siteinfo(write("<mediawiki><page></page></mediawiki>")) == SiteInfo("", "", "", True, ())
    case = "<mediawiki><siteinfo><sitename>W</sitename><case>case-sensitive</case></siteinfo></mediawiki>"
    assert read_siteinfo(write(case)) == SiteInfo("W", "", "", False, ())
    declared = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>\n<!-- made by hand -->\n' + SMALL
    assert read_siteinfo(write(declared)).dbname == "swwiki"
    assert len(read_whole(write(declared))) == 15


def test_siteinfo_needs_the_head_of_the_file_only(write):
    stored = bytearray(bz2.compress(LARGE, 1))
    stored[len(stored) // 3 :] = b"\xff" * 100
    assert read_siteinfo(write(bytes(stored), "dump.xml.bz2")).dbname == "swwiki"


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "empty"),
        (b" \n", "expected a MediaWiki export.*found"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "expected a MediaWiki export.*found '<!DOCTYPE html>"),
        (b'{"error": "not found"}', r"expected a MediaWiki export.*found '\{\"error"),
        (b"<feed>\n<doc>\n</doc></feed>", "expected a MediaWiki export.*found '<feed>"),
        (b"<page><title>A</title></page>", "expected a MediaWiki export"),
        (bz2.compress(SMALL), "rename|Rename"),
        (HEAD[:300].encode(), "neither <siteinfo> nor <page>"),
        (b"<mediawiki>" + b" " * (1 << 21), "neither <siteinfo> nor <page>"),
        (b'<!DOCTYPE mediawiki [<!ENTITY a "b">]>\n' + SMALL, "DTD.*not safe"),
        (b'<!DOCTYPE mediawiki SYSTEM "http://localhost/x.dtd">\n' + SMALL, "DTD.*not safe"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + SMALL, "expected UTF-8, found a declaration of ISO-8859-1"),
        (SMALL.replace(b'key="14"', b'key="x"'), "<siteinfo> cannot be read"),
        (SMALL.replace(b"&amp; picha", b"& picha"), "<siteinfo> cannot be read"),
    ],
)
def test_what_is_no_dump_is_refused(write, content, message):
    path = write(content)
    with pytest.raises(InputError, match=f"(?s)dump.xml: .*{message}"):
        read_siteinfo(path)
    if "siteinfo> cannot" not in message:
        with pytest.raises(InputError, match=message):
            plan_ranges(path, 100)
        with pytest.raises(InputError, match=message):
            read_whole(path)


@pytest.mark.parametrize("name", ["dump.xml.bz2", "dump.xml.gz", "dump.xml.xz", "dump.xml.zst"])
def test_page_of_a_web_server_under_the_name_of_a_dump_is_refused(write, name):
    path = write(b"<html>404</html>", name)
    with pytest.raises(InputError, match="damaged"):
        plan_ranges(path, 100)


def test_utf_16_that_breaks_off_is_read_up_to_there(write):
    xml = numbered("a", "b").decode().encode("utf-16") + b"\xd8"
    found = read_whole(write(xml))
    assert [page.title for page in found[:2]] == ["Ukurasa 1", "Ukurasa 2"]
    assert [page.reason for page in found[2:]] == ["unreadable_rest"]


# --- real dumps -------------------------------------------------------------------------------------------------------

# Pages, and damage by its reasons.
REAL = {
    "bgwiki-latest-pages-articles-shortened.xml.bz2": (3, []),
    "bnwiki-2023-trunc100k.xml.xz": (722, ["cut_page", "truncated"]),
    "enwiki-table-markup.xml.bz2": (5, []),
    "gensim_enwiki_p10p30302_shortened.xml.bz2": (206, []),
    "jawiki-2023-trunc100k.xml.xz": (238, ["cut_page", "truncated"]),
    "jawiki_keiouok.xml.bz2": (50, ["cut_page", "truncated"]),
    "smallwiki-latest-pages-articles.xml": (2004, []),
    "viwiki-2023-trunc100k.xml.xz": (970, ["cut_page", "truncated"]),
    "wp2txt_en_2022.xml.bz2": (251, ["truncated"]),
    "wp2txt_ja_2022.xml.bz2": (262, ["truncated"]),
}


def pages_of_real_dump(path: Path) -> list[Page]:
    open_text = {".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix, open)
    with open_text(path, "rb") as xml:
        text = io.BytesIO()
        try:
            while chunk := xml.read(1 << 16):
                text.write(chunk)
        except EOFError:  # a truncated file
            pass
    text.seek(0)
    return list(pages_by_expat(text))


@pytest.mark.real_data
@pytest.mark.parametrize("name", REAL)
def test_pages_of_real_dumps_are_those_that_an_xml_parser_finds(shared_data, name):
    path = shared_data / "wiki" / name
    count, reasons = REAL[name]
    expected = pages_of_real_dump(path)
    found = read_whole(str(path))
    assert found[:count] == expected
    assert len(expected) == count
    assert [damage.reason for damage in found[count:]] == reasons
    if path.suffix != ".xz":
        assert read_planned(str(path), path.stat().st_size // 5) == found


@pytest.mark.real_data
def test_pages_of_minidumps_are_those_that_an_xml_parser_finds(shared_data):
    paths = sorted((shared_data / "wiki" / "minidumps").iterdir())
    assert len(paths) == 24
    pages = 0
    for path in paths:
        found = read_whole(str(path))
        assert found == pages_of_real_dump(path)
        pages += len(found)
    assert pages == 56
