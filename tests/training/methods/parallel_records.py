"""Records of each kind with their translations into German and Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.spans import CharSpan
from schemas.translations import Translation
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import MethodSettings
from training.tasks.translations import Translations

PLACES = {"en": ("Hanoi", "Vienna", "Cologne"), "de": ("Hanoi", "Wien", "Köln"), "zh": ("河内", "维也纳", "科隆")}
CONTEXTS = {
    "en": "{} is home. {} is far.",
    "de": "{} ist das Zuhause, und {} ist sehr weit weg.",
    "zh": "{}是家。{}很远。",
}
QUERIES = {"en": "Where is home?", "de": "Wo ist zu Hause?", "zh": "家在哪里？"}
LANGS = ("en", "de", "zh")


def question(number: int, lang: str) -> MrcExample:
    place, other = PLACES[lang][number % 3], PLACES[lang][(number + 1) % 3]
    answers = (CharSpan(0, len(place)),)
    context = CONTEXTS[lang].format(place, other)
    return MrcExample(f"q{number}", lang, QUERIES[lang], context, answers, (place,), True, "squad", None)


def sentence(number: int, lang: str) -> TaggingExample:
    words = [PLACES[lang][number % 3], "x" if lang == "zh" else "-", *CONTEXTS[lang].partition("{}")[2].split()[:2]]
    text, spans = "", []
    for word in words:
        spans.append(CharSpan(len(text), len(text) + len(word)))
        text += word + " "
    return TaggingExample(f"s{number}", lang, text, tuple(spans), ("B-LOC", *["O"] * (len(words) - 1)), "wikiann")


def pair(number: int, lang: str) -> PairExample:
    place, same = PLACES[lang][number % 3], PLACES[lang][(number + number // 3) % 3]
    return PairExample(f"p{number}", lang, place, CONTEXTS[lang].format(same, place), str(number % 2), "paws_x")


MAKE: dict[str, Any] = {"qa": question, "tagging": sentence, "pairs": pair}
KIND_LABELS = {"qa": (), "tagging": ("LOC", "ORG", "PER"), "pairs": ("0", "1")}


def records(kind: str, lang: str = "en", count: int = 4) -> list[Any]:
    return [MAKE[kind](number, lang) for number in range(count)]


def translation(record: Any, into: Any, labels: str = "known") -> Translation:
    """`record` translated as `into`, a record of the same kind in another language."""
    row = into.to_row()
    known = labels != "unknown"
    return Translation.from_row(
        {
            "id": record.id,
            "source_lang": record.lang,
            "target_lang": into.lang,
            "kind": next(kind for kind, make in MAKE.items() if isinstance(record, type(make(0, "en")))),
            "task": record.task,
            "source_texts": texts(record),
            "texts": texts(into),
            "labels": labels,
            "score": 0.5 if labels == "projected" else None,
            "answers": row.get("answers", []) if known else [],
            "tokens": row.get("tokens", []),
            "tags": row.get("tags", []) if known else [],
            "label": row["label"] if isinstance(into, PairExample) and known else None,
        }
    )


def texts(record: Any) -> tuple[str, ...]:
    if isinstance(record, MrcExample):
        return record.query, record.context
    return (record.text,) if isinstance(record, TaggingExample) else (record.sentence1, record.sentence2)


def translations(kind: str, langs: Sequence[str] = ("de", "zh"), labels: str = "known", count: int = 4) -> Translations:
    """Translations of `records(kind)` into `langs`, and of those languages' records into English."""
    by_texts: dict[Any, list[Translation]] = {}
    for lang in langs:
        for number in range(count):
            english, other = MAKE[kind](number, "en"), MAKE[kind](number, lang)
            for made in (translation(english, other, labels), translation(other, english)):
                by_texts.setdefault((made.source_lang, made.source_texts), []).append(made)
    return Translations(by_texts)


def settings_of(kind: Any, method: MethodSettings, max_tokens: int = 64) -> InferenceSettings:
    settings = InferenceSettings(method, kind, KIND_LABELS[kind], max_tokens=max_tokens, max_query_tokens=16, stride=4)
    return replace(settings, max_answer_tokens=8)
