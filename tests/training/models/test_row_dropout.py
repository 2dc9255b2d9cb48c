from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from training.models.row_dropout import BLOCK, Draws, Replay, RowDropout, drawing, install, kept_units

CPU = torch.device("cpu")


@pytest.mark.parametrize("cuts", [[10], [0, 1, 2], [BLOCK], [BLOCK - 1, BLOCK + 1, 700]])
def test_rows_in_pieces_keep_the_units_of_the_whole(cuts: list[int]) -> None:
    whole = kept_units(5, 0, 800, 6, 0.3, CPU)
    edges = [0, *cuts, 800]
    pieces = [kept_units(5, start, end - start, 6, 0.3, CPU) for start, end in pairwise(edges)]
    assert torch.equal(torch.cat(pieces), whole)
    assert 0.65 < whole.float().mean().item() < 0.75
    assert not torch.equal(whole, kept_units(6, 0, 800, 6, 0.3, CPU))


def test_layers_calls_and_steps_drop_other_units_and_micro_batches_those_of_the_whole() -> None:
    one, other = RowDropout(0.5, 0), RowDropout(0.5, 1)
    x = torch.ones(1, 9, 64)

    def dropped(seed: int, *lengths: int) -> list[torch.Tensor]:
        rows_of: dict = {}
        outs, start = [], 0
        for number, length in enumerate(lengths):
            with drawing(Draws(seed, number, rows_of)):
                piece = x[:, start : start + length]
                outs.append(torch.stack([one(piece), one(piece), other(piece)]))
            start += length
        return list(torch.cat(outs, dim=2))

    whole = dropped(1, 9)
    for lengths in ((4, 5), (1, 1, 7), (8, 1)):
        assert all(torch.equal(piece, expected) for piece, expected in zip(dropped(1, *lengths), whole, strict=True))
    first, second, third = whole
    assert not torch.equal(first, second) and not torch.equal(first, third)
    assert not torch.equal(first, dropped(2, 9)[0])
    assert set(first.unique().tolist()) == {0.0, 2.0}


def test_a_repeated_pass_of_a_micro_batch_drops_the_same() -> None:
    layer, rows_of, x = RowDropout(0.5, 0), {}, torch.ones(5, 8)
    outs = []
    for number in (0, 1, 0, 1):  # as GradCache does
        with drawing(Draws(3, number, rows_of)):
            outs.append(layer(x))
    assert torch.equal(outs[0], outs[2]) and torch.equal(outs[1], outs[3]) and not torch.equal(outs[0], outs[1])


def test_a_call_that_is_replayed_after_its_micro_batch_drops_the_same() -> None:
    layer, x = RowDropout(0.5, 0), torch.ones(5, 8)
    with drawing(Draws(3, 0, {})):
        layer(x)
        replay = Replay()
        with replay():
            first = layer(x)
        layer(x)
    with replay():
        assert torch.equal(layer(x), first)


def test_without_a_step_and_in_prediction_it_is_torchs_dropout() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.1)))
    install(model)
    assert [type(module).__name__ for module in model] == ["Linear", "RowDropout", "Sequential"]
    assert [model[1].layer, model[2][0].layer] == [0, 1] and model[2][0].p == 0.1
    torch.manual_seed(0)
    mine = model[1](torch.ones(3, 4))
    torch.manual_seed(0)
    assert torch.equal(mine, nn.Dropout(0.5)(torch.ones(3, 4)))
    with drawing(Draws(1, 0, {})):
        assert torch.equal(model.eval()[1](torch.ones(3, 4)), torch.ones(3, 4))
