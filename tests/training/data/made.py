"""Datasets and features made for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.golden import make_clism_1
from training.data.features import ClismFeatures


def clism_dataset(folder: Path, rows: Mapping[str, int], shards: int = 2, first_id: int = 0) -> Path:
    """A dataset with so many rows of each target language, of many lengths; ids count from `first_id`."""
    patterns = {example.target_lang: example for example in make_clism_1.examples()}
    langs = [lang for lang, number in rows.items() for _ in range(number)]
    examples = [
        replace(
            patterns[lang],
            id=f"{first_id + at:020x}",
            target_text=patterns[lang].target_text + " la" * (at * 7 % 23),
            line=at + 1,
        )
        for at, lang in enumerate(langs)
    ]
    make_clism_1.write(folder, examples, shards)
    return folder


def features(source: int = 4, target: int = 5, first_token: int = 100, name: str = "a") -> ClismFeatures:
    """`<s> [QUE] … </s></s> answer answer … </s>` with ids 0 for <s>, 2 for </s>, 5 for [QUE]."""
    tokens = range(first_token, first_token + source - 1 + target)
    ids = (0, 5, *tokens[: source - 1], 2, 2, *tokens[source - 1 :], 2)
    return ClismFeatures(
        id=name,
        ids=ids,
        que=(1,),
        answers=((source + 3, source + 4),),
        source=(1, 1 + source),
        target=(source + 3, source + 3 + target),
        source_only=(0, 99, *tokens[: source - 1], 2),
    )
