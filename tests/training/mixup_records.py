"""A few labelled records in English, their translations into a made-up language, and these translated back.

The made-up language reverses words. The translation back replaces "lives" by "dwells".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from schemas.translations import Translation, TranslationCounts, kind_of, texts_of
from tests.training.people import PEOPLE, PLACES
from training.data.dataset_writer import write_dataset
from training.tasks.translations import Translations, read_translations

TASKS = {"qa": "squad", "tagging": "wikiann", "pairs": "xnli"}
LABELS = {"qa": (), "tagging": ("PER", "ORG", "LOC"), "pairs": ("contradiction", "entailment", "neutral")}


def words_of(number: int) -> list[str]:
    return [PEOPLE[number % 8], "lives", "in", PLACES[(3 * number) % 8]]


def record_of(kind: str, number: int, lang: str = "en", words: Sequence[str] = ()) -> Any:
    """The person's place is the answer, an entity, or what the second sentence says or not."""
    words = words or words_of(number)
    text, id_ = " ".join(words), f"r{number}"
    last = CharSpan(len(text) - len(words[-1]), len(text))
    if kind == "qa":
        return MrcExample(id_, lang, words[0], text, (last,), (words[-1],), True, "squad", None)
    if kind == "tagging":
        starts = [len(" ".join(words[:place])) + (place > 0) for place in range(len(words))]
        tokens = tuple(CharSpan(start, start + len(word)) for start, word in zip(starts, words, strict=True))
        return TaggingExample(id_, lang, text, tokens, ("B-PER", "O", "O", "B-LOC"), "wikiann")
    second = words[-1] if number % 2 else words[1]
    return PairExample(id_, lang, text, second, "entailment" if number % 2 else "neutral", "xnli")


def reversed_words(number: int) -> list[str]:
    return [word[::-1] for word in words_of(number)]


def translation_of(source: Any, target: Any, labels: str = "known") -> Translation:
    kind = kind_of(source)
    row = target.to_row()
    known = labels == "known"
    return Translation.from_row(
        {
            **{"id": source.id, "source_lang": source.lang, "target_lang": target.lang, "kind": kind},
            **{"task": TASKS[kind], "source_texts": texts_of(source), "texts": texts_of(target)},
            **{"labels": labels, "score": None, "tokens": row.get("tokens", [])},
            "answers": row.get("answers", []) if known else [],
            "tags": row.get("tags", []) if known else [],
            "label": row.get("label") if known else None,
        }
    )


def records(kind: str, number: int = 8) -> list[Any]:
    return [record_of(kind, each) for each in range(number)]


def translations(kind: str, number: int = 8, back: bool = True, labels: str = "known") -> list[Translation]:
    """Each record's translation into "xx" and, if `back`, this translated back."""
    found = []
    for each in range(number):
        target = record_of(kind, each, "xx", reversed_words(each))
        found.append(translation_of(record_of(kind, each), target, labels))
        if back:
            again = [{"lives": "dwells"}.get(word, word) for word in words_of(each)]
            found.append(translation_of(target, record_of(kind, each, "en", again), "unknown"))
    return found


def written(folder: Path, found: Sequence[Translation]) -> Path:
    """Writes a folder as `polyspan-train translate` does."""
    counts: dict[str, TranslationCounts] = {}
    for pair in dict.fromkeys(f"{each.source_lang}-{each.target_lang}" for each in found):
        own = [each for each in found if f"{each.source_lang}-{each.target_lang}" == pair]
        labels = {name: sum(each.labels == name for each in own) for name in ("known", "projected", "unknown")}
        counts[pair] = TranslationCounts(len(own), len(own), **labels)
    in_order = sorted(found, key=lambda each: f"{each.source_lang}-{each.target_lang}")
    write_dataset(folder, "translations/1", in_order, counts)
    return folder


def read(folder: Path, kind: str, **options: Any) -> Translations:
    return read_translations([written(folder / kind, translations(kind, **options))], TASKS[kind])
