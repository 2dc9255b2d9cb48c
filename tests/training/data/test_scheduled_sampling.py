from __future__ import annotations

import math

import pytest

from training.data.scheduled_sampling import probability_of_real_text, takes_real_text


@pytest.mark.parametrize("decay", [1000.0, 2000.0])
@pytest.mark.parametrize("step", [0, 1, 999, 7_600, 20_000])
def test_the_probability_is_the_inverse_sigmoid_of_bengio(step: int, decay: float) -> None:
    assert probability_of_real_text(step, decay) == pytest.approx(decay / (decay + math.exp(step / decay)), rel=1e-12)


def test_the_probability_falls_to_0_without_overflow() -> None:
    assert probability_of_real_text(10_000_000, 1000.0) == 0.0


def test_shares_of_real_text_follow_the_probability() -> None:
    for step in (0, 5_000, 7_000, 10_000):
        share = sum(takes_real_text(1, step, record, 1000.0) for record in range(4_000)) / 4_000
        assert share == pytest.approx(probability_of_real_text(step, 1000.0), abs=0.03)


def test_draws_depend_on_seed_step_and_record_alone() -> None:
    draws = [takes_real_text(1, 7_000, record, 1000.0) for record in range(64)]
    assert draws == [takes_real_text(1, 7_000, record, 1000.0) for record in range(64)]
    assert draws != [takes_real_text(2, 7_000, record, 1000.0) for record in range(64)]
    assert draws != [takes_real_text(1, 7_001, record, 1000.0) for record in range(64)]


def test_decay_0_always_takes_the_real_text() -> None:
    assert all(takes_real_text(1, 10**9, record, 0.0) for record in range(64))
