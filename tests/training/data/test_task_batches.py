from __future__ import annotations

import numpy as np
import torch

from training.data.task_batches import MrcWindow, PairFeatures, TagWindow, mrc_batch, pair_batch, tag_batch


def window(length: int, context: tuple[int, int], **changes: object) -> MrcWindow:
    offsets = np.arange(context[1] - context[0], dtype=np.int32)
    bare = MrcWindow(
        id=f"w{length}",
        record=0,
        label=None,
        ids=np.arange(length, dtype=np.int32) + 100 * length,
        query=(1, context[0] - 2),
        context=context,
        que=0,
        answers=(),
        answerable=False,
        starts=offsets,
        ends=offsets + 1,
    )
    return bare._replace(**changes)  # type: ignore[arg-type]


def test_places_of_windows_become_places_of_the_batch() -> None:
    windows = [
        window(8, (5, 7), answers=((5, 6), (6, 6)), answerable=True, que=2),
        window(9, (6, 8)),
        window(7, (4, 6), answers=((4, 4),), answerable=True),
    ]
    batch = mrc_batch(windows)
    assert batch.inputs.ids_T.tolist() == [*range(800, 808), *range(900, 909), *range(700, 707)]
    assert batch.inputs.bounds_N1.tolist() == [0, 8, 17, 24]
    assert batch.context_N2.tolist() == [[5, 7], [14, 16], [21, 23]]
    assert batch.query_N2.tolist() == [[1, 3], [9, 12], [18, 19]]
    assert batch.que_N.tolist() == [2, 8, 17]  # of those without, <s>
    assert list(zip(batch.answer_start_A.tolist(), batch.answer_end_A.tolist(), strict=True)) == [
        (5, 6), (6, 6), (21, 21),
    ]  # fmt: skip
    assert batch.sequence_A.tolist() == [0, 0, 2]
    assert batch.answerable_N.tolist() == [True, False, True]
    # The first answer, or <s>.
    assert (batch.gold_start_N.tolist(), batch.gold_end_N.tolist()) == ([5, 8, 21], [6, 8, 21])
    assert batch.candidate_start_NK.shape == batch.candidate_end_NK.shape == (3, 0)
    assert batch.example_ids == ("w8", "w9", "w7")


def test_candidates_are_filled_up() -> None:
    windows = [window(8, (5, 7), candidates=((5, 6), (6, 6), (5, 5))), window(9, (6, 8), candidates=((0, 0),))]
    batch = mrc_batch(windows)
    assert batch.candidate_start_NK.tolist() == [[5, 6, 5], [8, -1, -1]]
    assert batch.candidate_end_NK.tolist() == [[6, 6, 5], [8, -1, -1]]


def test_words_and_their_labels_are_joined() -> None:
    ids = np.arange(5, dtype=np.int32)
    windows = [
        TagWindow("a", 0, ids, words=(0, 2), places=(1, 3), labels=(4, 0)),
        TagWindow("b", 1, ids, words=(1,), places=(2,), labels=()),
        TagWindow("c", 2, ids, words=(0,), places=(1,), labels=(2,)),
    ]
    batch = tag_batch(windows)
    assert batch.words_W.tolist() == [1, 3, 7, 11]
    assert batch.labels_W.tolist() == [4, 0, -1, 2]  # -1: a record without tags
    assert batch.sequence_W.tolist() == [0, 0, 1, 2]
    assert batch.example_ids == ("a", "b", "c")


def test_pairs_keep_their_labels() -> None:
    ids = np.arange(3, dtype=np.int32)
    batch = pair_batch([PairFeatures("a", 0, ids, 2), PairFeatures("b", 1, ids, -1)])
    assert batch.inputs.ids_T.tolist() == [0, 1, 2, 0, 1, 2]
    assert batch.labels_N.tolist() == [2, -1]


def test_there_may_be_nothing_in_a_batch() -> None:
    for batch in (mrc_batch([]), tag_batch([]), pair_batch([])):
        assert batch.inputs.sequences == batch.inputs.tokens == 0
        assert batch.inputs.ids_T.dtype == torch.int64
    assert mrc_batch([]).candidate_start_NK.shape == (0, 0)
    assert mrc_batch([]).context_N2.shape == (0, 2)


def test_a_batch_moves_as_one() -> None:
    batch = mrc_batch([window(8, (5, 7), answers=((5, 6),))]).to("meta")
    assert {batch.gold_start_N.device.type, batch.inputs.ids_T.device.type, batch.query_N2.device.type} == {"meta"}
