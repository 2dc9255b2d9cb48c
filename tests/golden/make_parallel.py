"""Writes `translations-1/` and `soft_labels-1/`, small datasets that later releases must still read:
`python -m tests.golden.make_parallel`. The texts are made up.

The script always writes the same bytes. A new version of a schema gets examples and a folder of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas.card import dataset_card
from schemas.catalog import REJECTS
from schemas.counts import Counts
from schemas.manifest import FILE_NAME, InputFile, Manifest
from schemas.rejects import Reject
from schemas.shards import shard_name
from schemas.soft_labels import SoftLabelCounts, SoftLabels
from schemas.spans import CharSpan
from schemas.translations import Translation, TranslationCounts
from tests.golden.make_records import write_file

# Questions with an answer that is known, projected, unknown and absent; forward, to English and back; right-to-left
# text, text without spaces, a letter outside the Basic Multilingual Plane, original texts that are not known.
TRANSLATIONS = [
    Translation(
        *("q1", "de", "en", "qa", "golden"),
        source_texts=("Wo wohnt Anna?", "😀 Anna wohnt in Hanoi."),
        texts=("Where does Anna live?", "😀 Anna lives in Hanoi."),
        labels="unknown",
    ),
    Translation(
        *("q1", "en", "ar", "qa", "golden", (), ("أين تعيش آنا؟", "تعيش آنا في هانوي."), "known"),
        answers=(CharSpan(12, 17),),
    ),
    Translation(
        *("q2", "en", "ar", "qa", "golden", ("Who met?", "It is not said."), ("من التقى؟", "لم يُذكر."), "known"),
    ),
    Translation(
        *("s1", "en", "zh", "tagging", "golden", ("Anna lives in Hanoi.",), ("安娜住在河内。",), "projected", 0.75),
        tokens=tuple(CharSpan(start, end) for start, end in ((0, 2), (2, 3), (3, 4), (4, 6), (6, 7))),
        tags=("B-PER", "O", "O", "B-LOC", "O"),
    ),
    Translation(
        *(
            "p1",
            "en",
            "zh",
            "pairs",
            "golden",
            ("Anna lives here.", "She does."),
            ("安娜住在这里。", "是的。"),
            "known",
        ),
        label="1",
    ),
]
TRANSLATION_COUNTS: dict[str, Counts] = {
    "de-en": TranslationCounts(2, 1, {"too_long": 1}, unknown=1),
    "en-ar": TranslationCounts(2, 2, known=2),
    "en-zh": TranslationCounts(3, 2, {"empty_text": 1}, known=1, projected=1),
}
TRANSLATION_REJECTS = [
    Reject("too_long", "record", "q9", "de-en", "golden", 2, "Anna wohnt …"),
    Reject("empty_text", "record", "p9", "en-zh", "golden", 3, ""),
]
SOFT_LABELS = [
    SoftLabels("q1 (ar)", "ar", ((0.5, 0.25, 0.25, 0.0), (0.0, 0.0, 0.125, 0.875)), 4),
    SoftLabels("s1 (zh)", "zh", ((0.5, 0.25, 0.25, 1.0, 0.0, 0.0),), 3),
    SoftLabels("p1 (zh)", "zh", ((0.25, 0.75),), 2),
]
SOFT_LABEL_COUNTS: dict[str, Counts] = {"ar": SoftLabelCounts(1, 1), "zh": SoftLabelCounts(2, 2)}

DATASETS: dict[str, tuple[list[Any], dict[str, Counts], list[Reject]]] = {
    "translations/1": (TRANSLATIONS, TRANSLATION_COUNTS, TRANSLATION_REJECTS),
    "soft_labels/1": (SOFT_LABELS, SOFT_LABEL_COUNTS, []),
}


def write(folder: Path, schema: str, shards: int = 2) -> Manifest:
    """Writes a golden dataset folder."""
    rows, counts, rejects = DATASETS[schema]
    size = -(-len(rows) // shards)
    entries = [
        write_file(folder, f"data/{shard_name(number, shards)}", schema, rows[number * size : (number + 1) * size])
        for number in range(shards)
    ]
    manifest = Manifest(
        schema=schema,
        shards=tuple(entries),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", REJECTS, rejects),),
        counts=counts,
        config={"task": "golden", "labels": [], "sequences_sha256": ""},
        versions={"polyspan": "golden"},
        inputs=(InputFile("golden", "make_parallel.py", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8", newline="")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8", newline="")
    return manifest


if __name__ == "__main__":
    for schema in DATASETS:
        write(Path(__file__).parent / schema.replace("/", "-"), schema)
