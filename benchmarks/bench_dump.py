"""Megabytes of XML per CPU second that one core reads from a dump, as pages, by the form of the file.

    python -m benchmarks.bench_dump

The dump is the Japanese and the English sample of ../shared/data/wiki (2022), their pages repeated to about 40 MB of
XML. `read_pages` is compared with the decompression alone (Python's own) and an XML parser's way to the same fields
(ElementTree's `iterparse`, decompression included). `in ranges` reads the file in ranges of 2 MB as stored, one after
the other: what it costs to split it. The better of two passes is reported.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import zstandard

from pipelines.steps.wikipedia.dump import Page, plan_ranges, read_pages

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "wiki"
SAMPLES = ("wp2txt_ja_2022.xml.bz2", "wp2txt_en_2022.xml.bz2")
REPEATED = 2
PASSES = 2
RANGE_BYTES = 2_000_000

OPENERS: dict[str, Callable[[Path], IO[bytes]]] = {
    ".xml": lambda path: path.open("rb"),
    ".bz2": lambda path: bz2.open(path),  # noqa: SIM115
    ".gz": lambda path: gzip.open(path),  # type: ignore[dict-item, return-value]  # noqa: SIM115
    ".xz": lambda path: lzma.open(path),  # noqa: SIM115
    ".zst": lambda path: zstandard.open(path, "rb"),
}


def write_dumps(folder: Path) -> dict[str, Path]:
    """Writes the dump in every form; name → path."""
    texts = [bz2.decompress((DATA / name).read_bytes()) for name in SAMPLES]
    head = texts[0][: texts[0].index(b"  <page>")]
    pages = b"".join(text[text.index(b"  <page>") :] for text in texts)
    xml = head + pages * REPEATED + b"</mediawiki>\n"
    # As Wikimedia does it: a stream for every hundred pages.
    ends = [place for number, place in enumerate(places_of(b"  <page>", xml)) if number % 100 == 0]
    streams = [xml[start:end] for start, end in zip([0, *ends], [*ends, len(xml)], strict=True)]
    contents = {
        "plain": ("dump.xml", xml),
        "bz2": ("dump.xml.bz2", bz2.compress(xml)),
        "bz2, multistream": ("multistream.xml.bz2", b"".join(bz2.compress(stream) for stream in streams)),
        "gz": ("dump.xml.gz", gzip.compress(xml, 6)),
        "xz": ("dump.xml.xz", lzma.compress(xml, preset=1)),
        "zst": ("dump.xml.zst", zstandard.compress(xml)),
    }
    for name, content in contents.values():
        (folder / name).write_bytes(content)
    return {form: folder / name for form, (name, _) in contents.items()}


def places_of(tag: bytes, xml: bytes) -> Iterator[int]:
    place = xml.find(tag)
    while place >= 0:
        yield place
        place = xml.find(tag, place + 1)


def seconds(read: Callable[[Path], int], path: Path) -> float:
    """Returns the CPU seconds of the best pass."""
    passes = []
    for _ in range(PASSES):
        started = time.process_time()
        read(path)
        passes.append(time.process_time() - started)
    return min(passes)


def decompress(path: Path) -> int:
    """Bytes of XML."""
    with OPENERS[path.suffix](path) as file:
        return sum(map(len, iter(lambda: file.read(1 << 20), b"")))


def read_in_one_range(path: Path) -> int:
    """Pages."""
    return read(path, 1 << 62)


def read_in_ranges(path: Path) -> int:
    """Pages."""
    return read(path, RANGE_BYTES)


def read(path: Path, range_bytes: int) -> int:
    parts = plan_ranges(str(path), range_bytes)
    return sum(isinstance(page, Page) for part in parts for page in read_pages(part))


def parse_with_elementtree(path: Path) -> int:
    """Pages."""
    pages = 0
    with OPENERS[path.suffix](path) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.endswith("}page"):
                revision = element.find("{*}revision")
                assert revision is not None
                pages += None not in (element.findtext("{*}title"), revision.findtext("{*}text"))
                element.clear()
    return pages


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is absent: this benchmark reads real dumps.")
    columns = {
        "read_pages": read_in_one_range,
        "in ranges": read_in_ranges,
        "decompress": decompress,
        "ElementTree": parse_with_elementtree,
    }
    print(f"{'MB XML/s CPU':18}" + "".join(f"{name:>12}" for name in columns))
    with tempfile.TemporaryDirectory() as folder:
        dumps = write_dumps(Path(folder))
        megabytes = decompress(dumps["plain"]) / 1e6
        for form, path in dumps.items():
            assert read_in_one_range(path) == read_in_ranges(path) == parse_with_elementtree(path)
            rates = (megabytes / seconds(read, path) for read in columns.values())
            print(f"{form:18}" + "".join(f"{rate:12.1f}" for rate in rates), flush=True)


if __name__ == "__main__":
    main()
