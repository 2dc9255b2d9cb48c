"""The sentences of a run of `translate` and their translations, which are kept in files so that a run can go on.

texts → distinct texts → distinct sentences → chunks of sentences → their translations → translated texts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schemas.languages import LanguagePair
from schemas.spans import CharSpan
from training.inference.sentences import fitting_pieces
from training.models.files import read_json
from training.runtime import atomic_write

if TYPE_CHECKING:
    from training.inference.translator import Translator

SENTENCES_PER_CHUNK = 1_024  # that are translated before they are stored
_WITHOUT_BLANKS = ("ja", "zh")  # no blank between sentences


class TranslatedText(NamedTuple):
    """A translation, and where the sentences of both texts are. Sentence i translates sentence i."""

    text: str
    source: list[CharSpan]
    target: list[CharSpan]


@dataclass
class Memory:
    """The texts of a run, their sentences, and the translations of these."""

    pieces: dict[tuple[LanguagePair, str], list[CharSpan] | None] = field(default_factory=dict)  # None: too long
    found: dict[LanguagePair, dict[str, str | None]] = field(default_factory=dict)  # None: unfinished

    def text_or_problem(self, pair: LanguagePair, text: str) -> TranslatedText | str:
        """Returns the translation of a text, or the reason why it has none."""
        spans = self.pieces[pair, text]
        if spans is None:
            return "too_long"
        parts = [span.of(text) if pair.source == pair.target else self.found[pair][span.of(text)] for span in spans]
        if any(part is None for part in parts):
            return "unfinished"
        if not all(parts):
            return "empty_text"
        return _joined_or_problem(text, spans, list(filter(None, parts)), pair.target)


def _joined_or_problem(text: str, spans: Sequence[CharSpan], parts: Sequence[str], lang: str) -> TranslatedText | str:
    """Joins translated sentences: line breaks stay, and a blank or, in Chinese and Japanese, nothing is between others.
    A text without a sentence is `empty_text`."""
    joined, target = "", []
    for at, (span, part) in enumerate(zip(spans, parts, strict=True)):
        gap = text[spans[at - 1].end : span.start] if at else ""
        if at:
            joined += gap if "\n" in gap else "" if lang in _WITHOUT_BLANKS else " "
        target.append(CharSpan(len(joined), len(joined) + len(part)))
        joined += part
    return TranslatedText(joined, list(spans), target) if joined.strip() else "empty_text"


def plan(all_texts: Iterable[tuple[LanguagePair, str]], translator: Translator) -> Memory:
    """Cuts the distinct texts into sentences that the model can read. Raises `ConfigError` for languages that the model
    does not translate between."""
    texts: dict[LanguagePair, dict[str, None]] = {}
    for pair, text in all_texts:
        texts.setdefault(pair, {})[text] = None
    memory = Memory()
    for pair in texts:
        if pair.source != pair.target:
            translator.check(pair.source, pair.target)
    for pair, distinct in texts.items():
        if pair.source == pair.target:
            memory.pieces |= {(pair, text): [CharSpan(0, len(text))] for text in distinct}
            continue
        count = translator.count_tokens(pair.source, pair.target)
        pieces = fitting_pieces(list(distinct), count, translator.most_tokens)
        memory.pieces |= {(pair, text): spans for text, spans in zip(distinct, pieces, strict=True)}
        found = memory.found.setdefault(pair, {})
        for text, spans in zip(distinct, pieces, strict=True):
            found.update({span.of(text): None for span in spans or ()})
    return memory


def fill_memory(memory: Memory, translator: Translator, work: Path) -> None:
    """Translates all sentences. Chunks that are finished already are read from the work folder."""
    from training.inference.translator import SentenceProgress

    for pair, found in memory.found.items():
        sentences = list(found)
        chunks = [sentences[at : at + SENTENCES_PER_CHUNK] for at in range(0, len(sentences), SENTENCES_PER_CHUNK)]
        paths = [work / f"{pair}.{number:05}.json" for number in range(len(chunks))]
        done = [_read_chunk(path, chunk) for path, chunk in zip(paths, chunks, strict=True)]
        finished = sum(len(chunk) for chunk, read in zip(chunks, done, strict=True) if read)
        with SentenceProgress(str(pair), len(sentences), finished) as progress:
            for path, chunk, read in zip(paths, chunks, done, strict=True):
                if read is None:
                    read = translator.translate(chunk, *pair, partial(_add, progress, finished))
                    atomic_write.text(path, json.dumps({"sentences": _digest(chunk), "translations": read}))
                    finished += len(chunk)
                found.update(zip(chunk, read, strict=True))


def _add(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _read_chunk(path: Path, sentences: Sequence[str]) -> list[str | None] | None:
    """Reads a chunk's translations; None if there are none, or if they are those of other sentences."""
    if not path.is_file():
        return None
    chunk = read_json(path)
    fits = chunk.get("sentences") == _digest(sentences) and len(chunk.get("translations", ())) == len(sentences)
    return list(chunk["translations"]) if fits else None


def _digest(sentences: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(sentences).encode()).hexdigest()
