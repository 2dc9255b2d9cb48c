"""Writes `clism-1/`, a small dataset of schema clism/1 that later releases must still read: `python make_clism_1.py`.

The script always writes the same bytes. A new version of the schema gets a script and a folder of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from schemas.card import dataset_card
from schemas.clism import ARROW_SCHEMA, QUE_TOKEN, ClismExample, ClismQuestion, PairCounts
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.shards import shard_name, write_shard

# Mentions in [brackets], answers in [brackets] with the number of their question. They cover combining marks,
# right-to-left text, languages without spaces, letters outside the Basic Multilingual Plane before an answer.
SENTENCES = [
    ("en", "vi", "[Anna] lives in [Hanoi].", "[0:Anna] sống ở [1:Hà Nội]."),
    ("en", "vi", "😀 In [1945] 🇻🇳, [Hanoi]!", "😀 Ở [1:Hà Nội] 🇻🇳, [0:năm 1945]!"),
    ("en", "ar", "[Anna] lives in [Hanoi].", "[0:آنا] تعيش في [1:هانوي]."),
    ("en", "ar", "[WHO] met in [Geneva] on [Monday].", "اجتمعت [0:منظمة الصحة العالمية] في [1:جنيف] يوم [2:الاثنين]."),
    ("en", "th", "[Somchai] works in [Bangkok].", "[0:สมชาย]ทำงานที่[1:กรุงเทพฯ]"),
    ("en", "zh", "[Beijing] is the capital of [China].", "[0:北京]是[1:中国]的首都。"),
    ("en", "hi", "[Ravi] was born in [Mumbai].", "[0:रवि] का जन्म [1:मुंबई] में हुआ था।"),
]
LABELS = {"Hanoi": "GPE", "Geneva": "GPE", "Bangkok": "GPE", "Beijing": "GPE", "China": "GPE", "Mumbai": "GPE",
          "1945": "DATE", "Monday": "DATE", "WHO": "ORG"}  # fmt: skip


def examples() -> list[ClismExample]:
    return [parse(line, *sentence) for line, sentence in enumerate(SENTENCES, start=1)]


def parse(line: int, source_lang: str, target_lang: str, source: str, target: str) -> ClismExample:
    """`[Anna] sleeps.`, `[0:Anna] ngủ.` → the example."""
    source_text, mentions = _unmark(source, r"\[([^]]*)\]")
    target_text, marked = _unmark(target, r"\[\d:([^]]*)\]")
    answers = {int(number): span for number, span in zip(re.findall(r"\[(\d):", target), marked, strict=True)}
    questions, masked, end = [], "", 0
    for number, (start, stop) in enumerate(mentions):
        masked += source_text[end:start]
        label = LABELS.get(source_text[start:stop], "PERSON")
        questions.append(ClismQuestion(len(masked), start, stop, *answers[number], label, 0.5 + number / 4))
        masked, end = masked + QUE_TOKEN, stop
    return ClismExample(
        id=f"{line:020x}",
        source_lang=source_lang,
        target_lang=target_lang,
        source_text=source_text,
        masked_source_text=masked + source_text[end:],
        target_text=target_text,
        questions=tuple(questions),
        corpus="golden",
        line=line,
    )


def _unmark(text: str, pattern: str) -> tuple[str, list[tuple[int, int]]]:
    plain, spans, end = "", [], 0
    for match in re.finditer(pattern, text):
        plain += text[end : match.start()]
        spans.append((len(plain), len(plain) + len(match[1])))
        plain, end = plain + match[1], match.end()
    return plain + text[end:], spans


def write(folder: Path, rows: list[ClismExample] | None = None, shards: int = 2) -> Manifest:
    """Writes a dataset folder of these examples (or the golden ones), with one reject of each kind per pair."""
    rows = examples() if rows is None else rows
    names = sorted({f"{row.source_lang}-{row.target_lang}" for row in rows})
    counts = dict.fromkeys(names, PairCounts(1, 0, {"no_mention": 1}, 1, 0, {"no_link": 1}))
    for row in rows:
        name = f"{row.source_lang}-{row.target_lang}"
        counts[name] += PairCounts(1, 1, {}, len(row.questions), len(row.questions), {})
    rejects = [
        Reject(reason, unit, f"{100 + at:020x}", name, "golden", 100 + at, "Hello. ||| …")
        for at, name in enumerate(names)
        for reason, unit in (("no_mention", "pair"), ("no_link", "mention"))
    ]
    size = -(-len(rows) // shards)
    entries = [
        write_file(folder, f"data/{shard_name(at, shards)}", rows[at * size : (at + 1) * size]) for at in range(shards)
    ]
    manifest = Manifest(
        schema="clism/1",
        shards=tuple(entries),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", rejects),),
        counts=counts,
        config={"pairs": names, "seed": 0},
        versions={"polyspan": "golden"},
        inputs=(InputFile("golden", "make_clism_1.py", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8", newline="")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8", newline="")
    return manifest


def write_file(folder: Path, file: str, rows: list[ClismExample] | list[Reject]) -> ShardEntry:
    if file.startswith("data/"):
        table = pa.Table.from_pylist([row.to_row() for row in rows], schema=ARROW_SCHEMA)
    else:
        names = Reject.ARROW_SCHEMA.names
        table = pa.Table.from_pylist(
            [{name: getattr(row, name) for name in names} for row in rows], schema=Reject.ARROW_SCHEMA
        )
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, table, table.schema))


if __name__ == "__main__":
    write(Path(__file__).parent / "clism-1")
