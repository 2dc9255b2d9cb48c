"""Of which languages a model links the words, and what found these words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.steps.records import LanguagePair
from pipelines.steps.tokenize import tokenizer_version

WHITE_SPACE = {"tokenizer": "white space"}


@dataclass(frozen=True)
class TrainingText:
    """What a model knows of the text that it was trained on.

    >>> TrainingText(LanguagePair("en", "vi"), tokenizer_version("en"), tokenizer_version("vi"))
    """

    pair: LanguagePair
    source_words: Mapping[str, str]
    """What decides them: `steps.tokenize.tokenizer_version`, or `WHITE_SPACE`."""
    target_words: Mapping[str, str]

    @staticmethod
    def of(pair: LanguagePair, *, tokenized: bool = False) -> TrainingText:
        """That of a pair whose words are found here and now. `ConfigError` if a tokenizer is not installed."""
        if tokenized:
            return TrainingText(pair, WHITE_SPACE, WHITE_SPACE)
        return TrainingText(pair, tokenizer_version(pair.source), tokenizer_version(pair.target))

    @property
    def tokenized(self) -> bool:
        return self.source_words == self.target_words == WHITE_SPACE

    def differences(self, other: TrainingText) -> list[str]:
        """How the words of `other` are found otherwise; one line of text for a language.

        >>> TrainingText.of(pair, tokenized=True).differences(TrainingText.of(pair))
        ["en: tokenizer 'spacy:en' instead of 'white space', …", …]
        """
        told = []
        for lang, own, others in zip(
            self.pair, (self.source_words, self.target_words), (other.source_words, other.target_words), strict=True
        ):
            changed = [
                f"{name} {others.get(name, 'none')!r} instead of {own.get(name, 'none')!r}"
                for name in dict.fromkeys([*own, *others])
                if own.get(name) != others.get(name)
            ]
            if changed:
                told.append(f"{lang}: {', '.join(changed)}")
        return told

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.pair.source,
            "target": self.pair.target,
            "source_words": dict(self.source_words),
            "target_words": dict(self.target_words),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> TrainingText:
        """`KeyError`, `TypeError` or `ValueError` if that is not what `to_json` made."""
        pair = LanguagePair(str(value["source"]), str(value["target"]))
        return TrainingText(pair, dict(value["source_words"]), dict(value["target_words"]))
