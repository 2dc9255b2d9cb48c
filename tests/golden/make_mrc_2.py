"""Writes `mrc-2/`, a small dataset of schema mrc/2 that later releases must still read: `python make_mrc_2.py`. The
texts are made up.

A released golden dataset is never written again: what a new schema version needs is a script and a folder of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from schemas.card import dataset_card
from schemas.counts import RecordCounts
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.mrc import MrcExample
from schemas.rejects import Reject
from schemas.shards import SCHEMAS, shard_name, write_shard
from schemas.spans import CharSpan

# Language of the context, language of the query if it is another, id, published id if it is another, query, context,
# the answer in it. One id in two languages of one context is no repetition.
QUESTIONS = [
    ("de", None, "q1", None, "Wo wohnt Anna?", "😀 Anna wohnt in Hanoi.", "Hanoi"),
    ("de", "es", "q1", None, "¿Dónde vive Anna?", "😀 Anna wohnt in Hanoi.", "Hanoi"),
    ("de", "es", "q1#2", "q1", "¿Dónde vive Ben?", "Ben wohnt in Bonn.", "Bonn"),
    ("hi", "en", "q1", None, "Where was Ravi born?", "रवि का जन्म मुंबई में हुआ था।", "मुंबई"),
]
COUNTS = {
    "de": RecordCounts(4, 3, {"breaks_contract": 1}, 4, 3, {"breaks_contract": 1}),
    "hi": RecordCounts(2, 2, {}, 2, 1, {"answer_elsewhere": 1}),
}
REJECTS = [
    Reject("breaks_contract", "record", "r1", "de", "golden", 4, "id is empty: …"),
    Reject("answer_elsewhere", "label", "q2", "hi", "golden", 6, "वाराणसी, 3 ⟵ यह नहीं बताया गया।"),
]


def questions() -> list[MrcExample]:
    rows = []
    for lang, query_lang, id_, source_id, query, context, answer in QUESTIONS:
        span = CharSpan(context.index(answer), context.index(answer) + len(answer))
        rows.append(
            MrcExample(id_, lang, query, context, (span,), (answer,), True, "golden", None, query_lang, source_id)
        )
    # Its answer does not stand where it is said to: the text stays, the place does not.
    rows.append(MrcExample("q2", "hi", "अन्ना कहाँ रहती है?", "यह नहीं बताया गया।", (), ("वाराणसी",), True, "golden", None))
    return rows


def write(folder: Path, rows: Sequence[MrcExample] | None = None, shards: int = 2) -> Manifest:
    """A whole dataset folder of these examples (or the golden ones)."""
    rows = questions() if rows is None else rows
    size = -(-len(rows) // shards)
    entries = [
        write_file(folder, f"data/{shard_name(at, shards)}", "mrc/2", rows[at * size : (at + 1) * size])
        for at in range(shards)
    ]
    manifest = Manifest(
        schema="mrc/2",
        shards=tuple(entries),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", "rejects/1", REJECTS),),
        counts=COUNTS,
        config={"task": "golden"},
        versions={"polyspan": "golden"},
        inputs=(InputFile("golden", "make_mrc_2.py", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8", newline="")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8", newline="")
    return manifest


def write_file(folder: Path, file: str, schema: str, rows: Sequence[MrcExample | Reject]) -> ShardEntry:
    fields = SCHEMAS[schema]
    plain = [
        {name: getattr(row, name) for name in fields.names} if isinstance(row, Reject) else row.to_row() for row in rows
    ]
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, pa.Table.from_pylist(plain, schema=fields), fields))


if __name__ == "__main__":
    write(Path(__file__).parent / "mrc-2")
