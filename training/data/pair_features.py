"""Turns sentence pairs into the token sequences that a model reads.

A pair with more than `InferenceSettings.max_tokens`, special tokens included, is cut and gets the note
`truncated_pair`. The longer sentence is cut first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.mrc import PairExample
from training.data.split_long_text import longest_first, room_for
from training.data.task_batches import PairFeatures, number_of
from training.data.tokens import TextEncoder
from training.recipes.finetuning import InferenceSettings


def pair_features(
    records: Sequence[PairExample], encoder: TextEncoder, settings: InferenceSettings
) -> list[PairFeatures]:
    """Returns `<s> first </s></s> second </s>` for each record. The longer sentence is cut as in Hugging Face's
    tokenizer with `truncation=True`. Raises `InputError` if a record has a label that `settings.labels` do not hold.
    """
    numbers = {name: number for number, name in enumerate(settings.labels)}
    room = room_for(settings, len(encoder.pair((), ())[0]))
    found = []
    for index, record in enumerate(records):
        label = -1 if record.label is None else number_of(record.label, numbers, record.id, "label")
        first, second = encoder.ids(record.sentence1), encoder.ids(record.sentence2)
        notes = ("truncated_pair",) if len(first) + len(second) > room else ()
        most_first, most_second = longest_first(len(first), len(second), room)
        ids, _, _ = encoder.pair(first[:most_first], second[:most_second])
        found.append(PairFeatures(record.id, index, np.array(ids, np.int32), label, notes))
    return found
