from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.runtime import stateless_random


def test_bits_are_those_of_splitmix64():
    # The published reference's first numbers from 1234567.
    assert stateless_random.bits(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_keys_differ_for_other_numbers_another_order_or_another_count():
    tuples = [(), (0,), (0, 0), (1,), (1, 2), (2, 1), (1, 2, 0), (-1,), (2**64 + 7,), (2**63,)]
    assert len({stateless_random.key(*each) for each in tuples}) == len(tuples)


def test_uniforms_fill_the_unit_interval():
    drawn = stateless_random.uniforms(stateless_random.key(3), 100_000)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert np.histogram(drawn, 10, (0, 1))[0] == pytest.approx(10_000, rel=0.05)


@given(st.integers(1, 400), st.integers(0, 2**64 - 1))
def test_a_permutation_moves_every_place_to_one_of_its_own(size, key):
    assert sorted(stateless_random.permuted(np.arange(size), size, key)) == list(range(size))


def test_a_few_places_of_a_billion_go_where_all_would_send_them():
    size = 10**9
    places = np.array([0, 999_999_999, 123_456_789])
    moved = stateless_random.permuted(places, size, 1)
    assert len(set(moved.tolist())) == 3 and moved.max() < size
    assert stateless_random.permuted(places[1:2], size, 1) == moved[1]


def test_every_place_goes_everywhere_equally_often():
    found = np.zeros((6, 6))
    for key in range(6_000):
        found[np.arange(6), stateless_random.permuted(np.arange(6), 6, stateless_random.key(key))] += 1
    assert np.abs(found - 1_000).max() < 5 * np.sqrt(1_000 * 5 / 6)
