"""Writes `candidates-1/`, `mrc-1/`, `mrc-2/`, `pair-1/` and `tagging-1/`, small datasets that later releases must still
read: `python make_records.py`. The texts are made up.

The script always writes the same bytes. A new version of a schema gets examples and a folder of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.candidates import Candidate, CandidateCounts, CandidateSet
from schemas.card import dataset_card
from schemas.catalog import REJECTS, arrow_schema
from schemas.counts import Counts
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample
from schemas.rejects import Reject
from schemas.shards import shard_name, write_shard
from schemas.spans import CharSpan

# Language, query, context with its answers in [brackets], other published answers, the label that is asked for. They
# cover combining marks, right-to-left text, languages without spaces, letters outside the Basic Multilingual Plane
# before an answer, several answers, no answer, and an answer whose span is not known.
QUESTIONS = [
    ("ar", "أين تعيش آنا؟", "تعيش آنا في [هانوي].", (), None),
    ("en", "Where does Anna live?", "😀 Anna lives in [Hanoi], yes, [Hanoi].", ("the city of Hanoi",), None),
    ("en", "Where does Ben live?", "Anna lives in Hanoi.", (), None),
    ("en", "Who met?", "It is not told where.", ("Anna and Ben",), None),
    ("en", "Which places are named?", "Anna lives in [Hanoi].", (), "LOC"),
    ("hi", "रवि का जन्म कहाँ हुआ?", "रवि का जन्म [मुंबई] में हुआ था।", (), None),
    ("th", "สมชายทำงานที่ไหน", "สมชายทำงานที่[กรุงเทพฯ]ทุกวัน", (), None),
    ("zh", "她住在哪里?", "她住在[北京]。", ("北京市",), None),
]
# mrc/2: language of the context, language of the query if it differs, id, published id if it differs, query, context,
# answer. The same id may occur with queries in two languages.
QUESTIONS_2 = [
    ("de", None, "q1", None, "Wo wohnt Anna?", "😀 Anna wohnt in Hanoi.", "Hanoi"),
    ("de", "es", "q1", None, "¿Dónde vive Anna?", "😀 Anna wohnt in Hanoi.", "Hanoi"),
    ("de", "es", "q1#2", "q1", "¿Dónde vive Ben?", "Ben wohnt in Bonn.", "Bonn"),
    ("hi", "en", "q1", None, "Where was Ravi born?", "रवि का जन्म मुंबई में हुआ था।", "मुंबई"),
]
COUNTS_2 = {
    "de": RecordCounts(4, 3, {"breaks_contract": 1}, 4, 3, {"breaks_contract": 1}),
    "hi": RecordCounts(2, 2, {}, 2, 1, {"answer_elsewhere": 1}),
}
REJECTS_2 = [
    Reject("breaks_contract", "record", "r1", "de", "golden", 4, "id is empty: …"),
    Reject("answer_elsewhere", "label", "q2", "hi", "golden", 6, "वाराणसी, 3 ⟵ यह नहीं बताया गया।"),
]
# Language and words with their tags. There is no space before a word with `_`.
SENTENCES = [
    ("ar", "آنا/B-PER تعيش/O في/O هانوي/B-LOC _./O"),
    ("en", "😀/O Anna/B-PER Lee/I-PER lives/O in/O Hanoi/B-LOC _./O"),
    ("en", "No/O names/O here/O _./O"),
    ("en", "Nobody/ tagged/ this/"),
    ("vi", "Anna/B-PER sống/O ở/O Hà/B-LOC Nội/I-LOC _./O"),
    ("zh", "她/O _住/O _在/O _北京/B-LOC _。/O"),
]
PAIRS = [
    ("ar", "تعيش آنا في هانوي.", "هانوي هي حيث تعيش آنا.", "1"),
    ("en", "Anna lives in Hanoi.", "Hanoi is where Anna lives.", "1"),
    ("en", "Anna lives in Hanoi.", "Hanoi lives in Anna.", "0"),
    ("en", "Nobody judged this.", "No one has judged this.", None),
    ("vi", "Anna sống ở Hà Nội.", "😀 Hà Nội là nơi Anna sống.", "1"),
]
# Id of the question, language, spans of its context with their probability, the rank of the first true answer.
CANDIDATES = [
    ("q1", "ar", [(12, 17, 0.75), (9, 17, 0.125)], 1),
    ("q2", "en", [(2, 6, 0.5), (16, 21, 0.25), (28, 33, 0.125)], 2),
    ("q8", "zh", [(0, 1, 0.625), (1, 5, 0.25)], None),
]


def questions() -> list[MrcExample]:
    rows = []
    for number, (lang, query, marked, others, label) in enumerate(QUESTIONS, start=1):
        context, answers = re.sub(r"[][]", "", marked), []
        for before, match in enumerate(re.finditer(r"\[([^]]*)\]", marked)):
            start = match.start() - 2 * before
            answers.append(CharSpan(start, start + len(match[1])))
        texts = (*(span.of(context) for span in answers), *others)
        rows.append(MrcExample(f"q{number}", lang, query, context, tuple(answers), texts, bool(texts), "golden", label))
    return rows


def questions_2() -> list[MrcExample]:
    rows = []
    for lang, query_lang, id_, source_id, query, context, answer in QUESTIONS_2:
        span = CharSpan(context.index(answer), context.index(answer) + len(answer))
        rows.append(
            MrcExample(id_, lang, query, context, (span,), (answer,), True, "golden", None, query_lang, source_id)
        )
    # The context does not hold the answer at its published offset: its text is kept, its span is not.
    rows.append(MrcExample("q2", "hi", "अन्ना कहाँ रहती है?", "यह नहीं बताया गया।", (), ("वाराणसी",), True, "golden", None))
    return rows


def sentences() -> list[TaggingExample]:
    rows = []
    for number, (lang, words) in enumerate(SENTENCES, start=1):
        text, tokens, tags = "", [], []
        for word, tag in (each.rsplit("/", 1) for each in words.split(" ")):
            text += "" if word.startswith("_") or not text else " "
            tokens.append(CharSpan(len(text), len(text) + len(word.removeprefix("_"))))
            text += word.removeprefix("_")
            tags += [tag] if tag else []
        rows.append(TaggingExample(f"s{number}", lang, text, tuple(tokens), tuple(tags), "golden"))
    return rows


def pairs() -> list[PairExample]:
    return [
        PairExample(f"p{number}", lang, sentence1, sentence2, label, "golden")
        for number, (lang, sentence1, sentence2, label) in enumerate(PAIRS, start=1)
    ]


def candidates() -> list[CandidateSet]:
    return [
        CandidateSet(id_, lang, tuple(Candidate(*each) for each in found), gold_rank)
        for id_, lang, found, gold_rank in CANDIDATES
    ]


EXAMPLES = {
    "candidates/1": candidates,
    "mrc/1": questions,
    "mrc/2": questions_2,
    "pair/1": pairs,
    "tagging/1": sentences,
}


def one_reject_per_language(schema: str, rows: Sequence[Any]) -> tuple[dict[str, Counts], list[Reject]]:
    names = sorted({row.lang for row in rows})
    none = CandidateCounts() if schema == "candidates/1" else RecordCounts()
    counts: dict[str, Counts] = {}
    for name in names:
        counts[name] = none + type(none)(1, 0, {"breaks_contract": 1})
        for row in rows:
            if row.lang == name:
                counts[name] += row.counts if isinstance(row, CandidateSet) else RecordCounts(1, 1)
    rejects = [
        Reject("breaks_contract", "record", f"r{at}", name, "golden", at, "id is empty: …")
        for at, name in enumerate(names, start=1)
    ]
    return counts, rejects


def write(folder: Path, schema: str, rows: Sequence[Any] | None = None, shards: int = 2) -> Manifest:
    """Writes a dataset folder of these examples (or the golden ones)."""
    rows = EXAMPLES[schema]() if rows is None else rows
    counts, rejects = (COUNTS_2, REJECTS_2) if schema == "mrc/2" else one_reject_per_language(schema, rows)
    size = -(-len(rows) // shards)
    entries = [
        write_file(folder, f"data/{shard_name(at, shards)}", schema, rows[at * size : (at + 1) * size])
        for at in range(shards)
    ]
    manifest = Manifest(
        schema=schema,
        shards=tuple(entries),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", REJECTS, rejects),),
        counts=counts,
        config={"task": "golden"},
        versions={"polyspan": "golden"},
        inputs=(InputFile("golden", "make_mrc_2.py" if schema == "mrc/2" else "make_records_1.py", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8", newline="")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8", newline="")
    return manifest


def write_file(folder: Path, file: str, schema: str, rows: Sequence[Any]) -> ShardEntry:
    fields = arrow_schema(schema)
    plain = [
        {name: getattr(row, name) for name in fields.names} if isinstance(row, Reject) else row.to_row() for row in rows
    ]
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, pa.Table.from_pylist(plain, schema=fields), fields))


if __name__ == "__main__":
    for schema in EXAMPLES:
        write(Path(__file__).parent / schema.replace("/", "-"), schema)
