"""How many of the hard snippets of markup ours and two other extractors get right.

    python -m benchmarks.bench_hard_markup [--peers VENV] [--failures polyspan]

The snippets are those of tests/pipelines/hard_markup. `text`: the plain text is right but for white space. `anchors`:
the pairs of an anchor's text and its target are right, none lacks and none is too many. Targets are compared after
%-decoding and entities, `_` as a space, whichever the case of the first letter, since some tools write links as
addresses; links to other namespaces and wikis count for nothing, since any table of titles drops them. Offsets, which
the tests check, are asked of nobody here. `--peers` names a virtual environment with
`pip install wikiextractor mwparserfromhell`, which are run as programs; each is skipped where it is absent.

Read ours as the state of a test suite, not as a measurement on unseen markup: these snippets are our own tests, and our
scanner was corrected until it passed them. The others never saw them.

- WikiExtractor: `wikiextractor --json --links --no-templates` on an export file per language, with its siteinfo.
- mwparserfromhell: `strip_code()` after removing tables, references, galleries, formulas and code, and links whose
  prefix is the siteinfo's or the English name of files or categories: more than the library does by itself.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from pipelines.steps.wikitext.plain_text import plain_text
from pipelines.steps.wikitext.site import site_of
from tests.pipelines.hard_markup import SITEINFO, SNIPPETS, Snippet


class Extract(NamedTuple):
    """What a tool makes of a snippet."""

    text: str
    links: tuple[tuple[str, str], ...]  # (anchor text, target)


Extracts = dict[str, Extract]  # by the snippet's name


class Absent(Exception):
    """The tool is not installed."""


def with_polyspan(_: Path) -> Extracts:
    sites = {lang: site_of(lang, siteinfo) for lang, siteinfo in SITEINFO.items()}
    extracts = {}
    for snippet in SNIPPETS:
        found = plain_text(snippet.wikitext, sites[snippet.lang])
        links = tuple((found.text[anchor.start : anchor.end], anchor.target) for anchor in found.anchors)
        extracts[snippet.name] = Extract(found.text, links)
    return extracts


# --- WikiExtractor ----------------------------------------------------------------------------------------------------

PAGE = """  <page>
    <title>{title}</title>
    <ns>0</ns>
    <id>{number}</id>
    <revision>
      <id>{number}</id>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def export_of(lang: str, snippets: list[Snippet]) -> str:
    """An export file with a page per snippet, titled by the snippet's name."""
    siteinfo = SITEINFO[lang]
    namespaces = "\n".join(
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>' for key, name in siteinfo.namespaces
    )
    pages = "".join(
        PAGE.format(title=snippet.name, number=number, text=escape(snippet.wikitext))
        for number, snippet in enumerate(snippets, 1)
    )
    return f"""<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="{lang}">
  <siteinfo>
    <sitename>{siteinfo.name}</sitename>
    <dbname>{siteinfo.dbname}</dbname>
    <base>{siteinfo.base}</base>
    <case>first-letter</case>
    <namespaces>
{namespaces}
    </namespaces>
  </siteinfo>
{pages}</mediawiki>
"""


def linked_text(source: str) -> Extract:
    """Text and links of text in which links are `<a href="…">`; links to other sites are no anchors."""
    text, links = "", []
    for piece in re.split('(<a href="[^"]*">.*?</a>)', source, flags=re.DOTALL):
        link = re.fullmatch('<a href="([^"]*)">(.*)</a>', piece, flags=re.DOTALL)
        text += link[2] if link else piece
        if link and not re.match("(https?:|mailto:)?//", unquote(link[1])):
            links.append((link[2], link[1]))
    return Extract(text, tuple(links))


def with_wikiextractor(peers: Path) -> Extracts:
    program = peers / "bin" / "wikiextractor"
    if not program.exists():
        raise Absent(f"no {program}")
    extracts = {}
    for lang in SITEINFO:
        with tempfile.TemporaryDirectory() as folder:
            source, output = Path(folder, "pages.xml"), Path(folder, "text")
            snippets = [snippet for snippet in SNIPPETS if snippet.lang == lang]
            source.write_text(export_of(lang, snippets), "utf-8")
            options = ["--json", "--links", "--no-templates", "--processes", "1", "--quiet", "--output", str(output)]
            subprocess.run([program, source, *options], check=True, capture_output=True, timeout=120)
            for path in sorted(output.rglob("wiki_*")):
                for line in path.read_text("utf-8").splitlines():
                    page = json.loads(line)
                    extracts[page["title"]] = linked_text(html.unescape(page["text"]))
    return extracts


# --- mwparserfromhell -------------------------------------------------------------------------------------------------

# Reads [[name, wikitext, prefixes of files and categories], …], writes {name: [text, [[anchor text, target], …]]}.
MWPARSERFROMHELL = """
import json, sys
import mwparserfromhell as parser

DROPPED = "ref references table gallery math chem syntaxhighlight source timeline imagemap score".split()

def extract(wikitext, prefixes):
    code = parser.parse(wikitext)
    def remove(node):
        try:
            code.remove(node)
        except ValueError:
            pass  # it went with what it stood in
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() in DROPPED):
        remove(tag)
    for link in code.filter_wikilinks(matches=lambda link: ":" in link.title):
        if str(link.title).split(":")[0].strip().lower() in prefixes:
            remove(link)
    for template in code.filter_templates():
        remove(template)
    links = []
    for link in code.filter_wikilinks():
        label = link.text if link.text is not None else link.title
        target = "".join(str(node) for node in link.title.nodes if not isinstance(node, parser.nodes.Comment))
        links.append([label.strip_code(), target])
    return code.strip_code(), links

print(json.dumps({name: extract(wikitext, prefixes) for name, wikitext, prefixes in json.load(sys.stdin)}))
"""


def with_mwparserfromhell(peers: Path) -> Extracts:
    program = peers / "bin" / "python"
    if (
        not program.exists()
        or subprocess.run([program, "-c", "import mwparserfromhell"], capture_output=True).returncode
    ):
        raise Absent(f"no mwparserfromhell in {peers}")
    gone = {
        lang: sorted({"file", "image", "category"} | {name.lower() for key, name in info.namespaces if key in (6, 14)})
        for lang, info in SITEINFO.items()
    }
    asked = json.dumps([(snippet.name, snippet.wikitext, gone[snippet.lang]) for snippet in SNIPPETS])
    done = subprocess.run([program, "-c", MWPARSERFROMHELL], input=asked, capture_output=True, text=True, check=True)
    return {
        name: Extract(text, tuple((anchor, target) for anchor, target in links))
        for name, (text, links) in json.loads(done.stdout).items()
    }


# --- the score --------------------------------------------------------------------------------------------------------

TOOLS: dict[str, Callable[[Path], Extracts]] = {
    "polyspan": with_polyspan,
    "wikiextractor": with_wikiextractor,
    "mwparserfromhell": with_mwparserfromhell,
}


def one_line(text: str) -> str:
    """Without differences of white space, and without the quotation marks that WikiExtractor makes of italics."""
    return " ".join(text.replace('"', "").split())


def plain_target(target: str) -> str:
    """A target whichever way it is spelt: WikiExtractor escapes entities and `%` once more."""
    for _ in range(3):
        target = html.unescape(unquote(target))
    title = one_line(re.sub("[\u200e\u200f]", "", target).replace("_", " ")).removeprefix(":").strip()
    return title[:1].lower() + title[1:]


def text_is_right(snippet: Snippet, found: Extract) -> bool:
    return one_line(found.text) in {one_line(text) for text in (snippet.text, *snippet.also)}


def expected_links(snippet: Snippet) -> Counter[tuple[str, str]]:
    return Counter((one_line(link.text), plain_target(link.target)) for link in snippet.links)


def found_links(snippet: Snippet, found: Extract) -> Counter[tuple[str, str]]:
    site = site_of(snippet.lang, SITEINFO[snippet.lang])
    links = [(one_line(anchor), plain_target(target)) for anchor, target in found.links]
    elsewhere = site.namespaces.keys() | site.interwiki
    return Counter(
        link for link in links if link[1].split(":")[0].strip().lower() not in elsewhere or ":" not in link[1]
    )


def score(extracts: Extracts) -> list[int]:
    """Snippets with the right text, with the right anchors, with both; anchors found, anchors that are none."""
    text = anchors = both = found = spurious = 0
    for snippet in SNIPPETS:
        extract = extracts.get(snippet.name, Extract("", ()))
        here, wanted = found_links(snippet, extract), expected_links(snippet)
        text += text_is_right(snippet, extract)
        anchors += here == wanted
        both += here == wanted and text_is_right(snippet, extract)
        found += (here & wanted).total()
        spurious += (here - wanted).total()
    return [text, anchors, both, found, spurious]


def print_failures(extracts: Extracts) -> None:
    for snippet in SNIPPETS:
        found = extracts.get(snippet.name, Extract("", ()))
        if not (text_is_right(snippet, found) and found_links(snippet, found) == expected_links(snippet)):
            print(f"{snippet.name} ({snippet.lang}): {snippet.wikitext!r}")
            print(f"    expected {snippet.text!r} {[(link.text, link.target) for link in snippet.links]}")
            print(f"    found    {found.text!r} {list(found.links)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(sys.prefix), help="virtual environment of the other tools")
    parser.add_argument("--failures", choices=TOOLS, help="show what this tool gets wrong instead")
    arguments = parser.parse_args()
    if arguments.failures:
        print_failures(TOOLS[arguments.failures](arguments.peers))
        return
    total = sum(len(snippet.links) for snippet in SNIPPETS)
    print(f"{len(SNIPPETS)} snippets in {len(SITEINFO)} languages with {total} anchors\n")
    print("| tool | text right | anchors right | both | anchors found | false anchors |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, extract in TOOLS.items():
        try:
            print(f"| {name} |", " | ".join(map(str, score(extract(arguments.peers)))), "|")
        except Absent as error:
            print(f"{name} skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
