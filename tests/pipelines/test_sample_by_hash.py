from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.sample import sample_by_hash

RECORDS = [f"record {number}" for number in range(1000)]


def draw(records: list[str], size: int, seed: int = 0, unfit: frozenset[str] = frozenset()) -> list[str]:
    return sample_by_hash(records, size, seed, str, lambda record: None if record in unfit else record)


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


def test_most_records_of_a_large_corpus_are_never_made() -> None:
    made = []
    sample_by_hash(RECORDS, 10, 0, str, lambda record: made.append(record) or record)
    assert len(made) < 150
