from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.common.hash_sample import sample_by_hash

RECORDS = [f"record {number}" for number in range(1000)]


def draw(records: list[str], size: int, seed: int = 0, unfit: frozenset[str] = frozenset()) -> list[str]:
    """What is stored in the end; on the way never more than a quarter beyond `size`."""
    stored: list[str] = []

    def add(record: str) -> bool:
        if record not in unfit:
            stored.append(record)
        assert len(stored) <= size + size // 4 + 1
        return record not in unfit

    def keep(rows: Iterable[int]) -> None:
        stored[:] = [stored[row] for row in rows]

    sample_by_hash(records, size, seed, str, add, keep)
    return stored


def test_a_sample_has_the_asked_size_keeps_the_order_and_depends_on_the_seed() -> None:
    sample = draw(RECORDS, 100)
    assert len(sample) == 100 and sample == sorted(sample, key=RECORDS.index)
    assert 400 < sum(map(RECORDS.index, sample)) / 100 < 600
    assert draw(RECORDS, 100, seed=1) != sample
    assert draw(RECORDS, 2000) == RECORDS


@given(st.permutations(RECORDS[:40]), st.integers(1, 45), st.frozensets(st.sampled_from(RECORDS[:40])))
def test_what_is_drawn_depends_on_the_fit_records_alone(records: list[str], size: int, unfit: frozenset[str]) -> None:
    sample = draw(records, size, unfit=unfit)
    assert set(sample) == set(draw([record for record in RECORDS[:40] if record not in unfit], size))
    assert len(sample) == min(size, 40 - len(unfit))


def test_most_records_of_a_large_corpus_are_never_stored() -> None:
    stored: list[str] = []
    sample_by_hash(RECORDS, 10, 0, str, lambda record: stored.append(record) is None, lambda rows: None)
    assert len(stored) < 150


def test_of_equal_hashes_the_first_are_drawn() -> None:
    positions: list[int] = []
    sample_by_hash(
        enumerate("same" for _ in range(100)),
        7,
        0,
        lambda item: item[1],
        lambda item: positions.append(item[0]) is None,
        lambda rows: positions.__setitem__(slice(None), [positions[row] for row in rows]),
    )
    assert positions == list(range(7))
