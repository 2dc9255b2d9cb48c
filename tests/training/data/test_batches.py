from __future__ import annotations

import torch

from tests.training.data.made import features
from training.data.batches import as_arrays, as_tensors, clism_batch, pack, wae_batch
from training.data.features import WaeFeatures
from training.data.masking import Masked, Mlm, mask_tokens, unmasked


def test_sequences_are_packed_one_after_another_and_padded_alike():
    packed = pack([(5, 6, 7), (8, 9)])
    assert packed.ids_T.tolist() == [5, 6, 7, 8, 9]
    assert packed.positions_T.tolist() == [0, 1, 2, 0, 1]
    assert packed.bounds_N1.tolist() == [0, 3, 5]
    assert (packed.longest, packed.sequences, packed.tokens) == (3, 2, 5)
    assert (packed.ids_T.dtype, packed.positions_T.dtype, packed.bounds_N1.dtype) == (
        torch.int64, torch.int64, torch.int32)  # fmt: skip
    ids_NL, mask_NL = packed.padded(pad_id=1)
    assert ids_NL.tolist() == [[5, 6, 7], [8, 9, 1]]
    assert mask_NL.tolist() == [[True, True, True], [True, True, False]]


def test_places_of_a_clism_batch_lead_to_the_tokens_of_its_examples():
    examples = [features(4, 5, 100, "a"), features(7, 6, 200, "b"), features(2, 3, 300, "c")]
    masked = [mask_tokens(each, Mlm(4, 1_000, range(6), rate=0.5), key=at) for at, each in enumerate(examples)]
    batch = clism_batch(examples, masked)
    ids_T = batch.inputs.ids_T.clone()
    ids_T[batch.masked_M] = batch.labels_M
    assert ids_T.tolist() == [token for each in examples for token in each.ids]
    assert batch.inputs.ids_T.tolist() == [token for each in masked for token in each.ids.tolist()]
    assert ids_T[batch.que_Q].tolist() == [5, 5, 5]
    assert batch.sequence_Q.tolist() == [0, 1, 2]
    for at, each in enumerate(examples):
        first, last = each.answers[0]
        assert ids_T[batch.answer_start_Q[at] : batch.answer_end_Q[at] + 1].tolist() == list(each.ids[first : last + 1])
        for places, (start, end) in ((batch.source_N2, each.source), (batch.target_N2, each.target)):
            assert ids_T[places[at, 0] : places[at, 1]].tolist() == list(each.ids[start:end])
        start, end = batch.source_only_N2[at]
        assert batch.sources.ids_T[start:end].tolist() == list(each.source_only[1:-1])
    assert batch.example_ids == ("a", "b", "c")


def test_places_of_a_wae_batch_lead_to_the_tokens_of_its_examples():
    one = WaeFeatures("a", (0, 10, 2, 2, 11, 12, 13, 2), (4, 7), ((4, 4), (5, 6)), True)
    none = WaeFeatures("b", (0, 20, 2, 2, 21, 22, 2), (4, 6), (), False)
    batch = wae_batch([one, none, one])
    ids_T = batch.inputs.ids_T
    spans = zip(batch.answer_start_A.tolist(), batch.answer_end_A.tolist(), strict=True)
    assert [ids_T[start : end + 1].tolist() for start, end in spans] == [[11], [12, 13]] * 2
    assert batch.sequence_A.tolist() == [0, 0, 2, 2]
    assert [ids_T[start:end].tolist() for start, end in batch.context_N2] == [[11, 12, 13], [21, 22], [11, 12, 13]]
    assert batch.answerable_N.tolist() == [True, False, True]


def test_a_batch_may_hold_no_example():
    batch = clism_batch([], [])
    assert batch.inputs.tokens == batch.inputs.sequences == batch.inputs.longest == 0
    assert (batch.source_N2.shape, batch.que_Q.shape, batch.masked_M.dtype) == ((0, 2), (0,), torch.int64)
    assert wae_batch([]).answerable_N.dtype == torch.bool
    assert batch.inputs.padded(1)[0].shape == (0, 0)


def test_a_batch_goes_to_a_device_and_through_a_queue_whole():
    examples = [features(4, 5), features(6, 2, name="b")]
    batch = clism_batch(examples, [unmasked(examples[0]), Masked(*mask_tokens(examples[1], Mlm(4, 999, range(6)), 1))])
    assert batch.to("meta").inputs.ids_T.is_meta and batch.to("meta").que_Q.is_meta
    back = as_tensors(as_arrays(batch))
    assert str(back) == str(batch)
    assert not isinstance(as_arrays(batch).inputs.ids_T, torch.Tensor)
