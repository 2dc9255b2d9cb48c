"""Sentence pairs per second that one core reads, checks, decodes, checksums and names, from the formats of `--bitext`.

    python -m benchmarks.bench_read

The corpora are those of ../shared/data, repeated to about a quarter of a million pairs so that start-up costs nothing:
Tatoeba's German (short sentences), the Bible in Vietnamese (long ones) and TICO-19 in Arabic (as TMX). The best of
three passes counts; MB are as stored.
"""

from __future__ import annotations

import lzma
import tempfile
import time
from pathlib import Path

from pipelines.steps.bitext.readers import expand_bitext, read_bitext
from schemas.languages import LanguagePair

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "bitext"
PASSES = 3


def write_corpora(folder: Path) -> dict[str, tuple[str, LanguagePair]]:
    """Writes the corpora to measure; name → what `--bitext` takes, and its pair."""
    for lang, name in (("en", "eng"), ("de", "deu")):
        text = (DATA / "tatoeba" / "deu-eng" / f"tatoeba-test-v2021-08-07.{name}").read_bytes()
        (folder / f"tatoeba.{lang}").write_bytes(text * 15)
    rows = lzma.decompress((DATA / "corpora" / "bible.en-vi.tsv.xz").read_bytes()) * 8
    (folder / "bible.tsv").write_bytes(rows)
    (folder / "bible.tsv.xz").write_bytes(lzma.compress(rows, preset=1))
    head, body, tail = (
        (DATA / "tico19" / "all.en-ar.tmx").read_text("utf-8").replace("</body>", "<body>").split("<body>")
    )
    (folder / "tico.tmx").write_text(f"{head}<body>{body * 80}</body>{tail}", "utf-8")
    english_german, english_vietnamese = LanguagePair("en", "de"), LanguagePair("en", "vi")
    return {
        "Moses, plain": (f"{folder}/tatoeba.en,{folder}/tatoeba.de", english_german),
        "TSV, plain": (f"{folder}/bible.tsv@1,2", english_vietnamese),
        "TSV, xz": (f"{folder}/bible.tsv.xz@1,2", english_vietnamese),
        "TMX, plain": (f"{folder}/tico.tmx", LanguagePair("en", "ar")),
    }


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is absent: this benchmark reads real corpora.")
    print(f"{'form':14}{'pairs':>9}{'MB':>7}{'pairs/s':>11}{'MB/s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (spec, pair) in write_corpora(Path(folder)).items():
            [file] = expand_bitext([spec], [pair])
            megabytes = sum(Path(path).stat().st_size for path in {file.source_path, file.target_path}) / 1e6
            seconds = []
            for _ in range(PASSES):
                started = time.perf_counter()
                pairs = sum(1 for _ in read_bitext(file))
                seconds.append(time.perf_counter() - started)
            best = min(seconds)
            print(f"{name:14}{pairs:9,}{megabytes:7.1f}{pairs / best:11,.0f}{megabytes / best:7.1f}")


if __name__ == "__main__":
    main()
