"""The languages that a model was trained on, and the tokenizers that found the words."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.errors import ConfigError
from schemas.languages import LANGUAGES, LanguagePair, is_language_code

logger = logging.getLogger(__name__)

WHITE_SPACE = {"tokenizer": "white space"}


@dataclass(frozen=True)
class TrainingText:
    """What a model records about the text that it was trained on."""

    pair: LanguagePair
    words: tuple[Mapping[str, str], Mapping[str, str]]
    """What decides the words of either side: the name and versions of a tokenizer, or `WHITE_SPACE`."""

    @property
    def tokenized(self) -> bool:
        return self.words == (WHITE_SPACE, WHITE_SPACE)

    def to_json(self) -> dict[str, Any]:
        """Converts to JSON, for instance

        {"source": "en", "target": "vi", "words": [{"tokenizer": "moses:vi", "sacremoses": "0.2.0", …}, …]}
        """
        return {"source": self.pair.source, "target": self.pair.target, "words": list(map(dict, self.words))}

    @staticmethod
    def from_json(value: object) -> TrainingText:
        """Reverses `to_json`. Raises `ValueError`, which names the wrong field."""
        if not isinstance(value, dict) or value.keys() != {"source", "target", "words"}:
            raise ValueError("text: expected source, target and words")
        words = value["words"]
        if not isinstance(words, list) or len(words) != 2:
            raise ValueError("text.words: expected what found the words of either side")
        for side, versions in zip(("source", "target"), words, strict=True):
            if (
                not isinstance(versions, dict)
                or "tokenizer" not in versions
                or not all(map(_is_name, versions.values()))
            ):
                raise ValueError(f"text.words: expected a tokenizer and its versions for the {side} side")
            lang = value[side]
            if not isinstance(lang, str) or not is_language_code(lang):
                raise ValueError(f"text.{side}: expected the code of a language")
            if versions != WHITE_SPACE and lang not in LANGUAGES:
                raise ValueError(f"text.{side} is {lang!r}: expected one of {' '.join(LANGUAGES)}")
        return TrainingText(LanguagePair(value["source"], value["target"]), (words[0], words[1]))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= 200


def check_text(text: TrainingText, trained: TrainingText, model: str) -> None:
    """Raises `ConfigError` if `model`, a path, was trained on another language pair than that of `text`.

    Another tokenizer is only logged as a warning: a newer version finds mostly the same words.
    """
    if text.pair != trained.pair:
        raise ConfigError(
            f"--pair {text.pair}: {model} was trained on {trained.pair}. Name another model, or train one with: "
            f"polyspan-data align train --pair {text.pair}{' --tokenized' * text.tokenized} …"
        )
    for lang, now, then in zip(text.pair, text.words, trained.words, strict=True):
        if now != then:
            logger.warning(
                "%s: its words of %r were found with %s, but these are found with %s: links may be worse.",
                model,
                lang,
                _names(then),
                _names(now),
            )


def _names(versions: Mapping[str, str]) -> str:
    """Formats what decided the words.

    >>> _names({"tokenizer": "moses:vi", "sacremoses": "0.2.0"})
    'moses:vi, sacremoses 0.2.0'
    """
    return ", ".join(found if name == "tokenizer" else f"{name} {found}" for name, found in versions.items())
