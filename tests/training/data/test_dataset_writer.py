"""A dataset folder from an iterator is complete or absent, and has the same bytes every time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.counts import Counts
from schemas.errors import ConfigError
from schemas.manifest import InputFile, load
from schemas.mrc import PairExample, RecordCounts
from schemas.rejects import Reject
from schemas.shards import read_examples, read_rejects
from schemas.verification import find_problems
from training.data.dataset_writer import write_dataset

PAIR = PairExample("1", "vi", "Anna sống ở Hà Nội.", "Hà Nội là nơi Anna sống.", "1", "paws_x")
REJECT = Reject("breaks_contract", "record", "7", "vi", "dev-vi.tsv", 7, "task is empty: …")


def pairs(count: int) -> list[PairExample]:
    return [replace(PAIR, id=str(n), label=str(n % 2)) for n in range(count)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("rows, shards", [(0, 1), (4, 1), (5, 1), (6, 2), (11, 3)])
def test_examples_come_back_in_their_order_in_shards_of_bounded_rows(tmp_path: Path, rows: int, shards: int) -> None:
    index = write_dataset(
        tmp_path / "made", "pair/1", iter(pairs(rows)), {"vi": RecordCounts(rows, rows)}, rows_per_shard=5
    )
    assert [shard.file for shard in index.shards] == [f"data/part-{n:05}-of-{shards:05}.arrow" for n in range(shards)]
    assert max(shard.rows for shard in index.shards) <= 5
    assert list(read_examples(tmp_path / "made", verify=True)) == pairs(rows)
    assert list(find_problems(tmp_path / "made")) == []
    assert load(tmp_path / "made") == index
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_counts_may_be_filled_by_the_iterator_and_the_manifest_says_the_rest(tmp_path: Path) -> None:
    counts: dict[str, Counts] = defaultdict(lambda: RecordCounts(1, 0, {"breaks_contract": 1}))

    def counted() -> Iterator[PairExample]:
        for pair in pairs(3):
            counts[pair.lang] += RecordCounts(1, 1)
            yield pair

    inputs = [InputFile("paws_x", "dev-vi.tsv", 17, "ab" * 32)]
    write_dataset(
        tmp_path / "made", "pair/1", counted(), counts, rejects=[REJECT], config={"task": "paws_x"}, inputs=inputs,
        versions={"torch": "2"},
    )  # fmt: skip
    index = load(tmp_path / "made")
    assert index.totals == RecordCounts(4, 3, {"breaks_contract": 1})
    assert (index.config, index.inputs) == ({"task": "paws_x"}, tuple(inputs))
    assert {"polyspan", "pyarrow", "torch"} == index.versions.keys()
    assert [row["record_id"] for batch in read_rejects(tmp_path / "made") for row in batch.to_pylist()] == ["7"]
    assert "| `vi` | 4 | 3 | 75.0% |" in (tmp_path / "made/README.md").read_text(encoding="utf-8")
    assert list(find_problems(tmp_path / "made")) == []


def test_the_same_examples_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_dataset(tmp_path / name, "pair/1", iter(pairs(9)), {"vi": RecordCounts(9, 9)}, rows_per_shard=4)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(files(tmp_path / "one")) == 3 + 1 + 2


def failing() -> Iterator[PairExample]:
    yield PAIR
    raise OSError("the disk is full")


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(OSError, match="full"):
        write_dataset(made, "pair/1", failing(), {"vi": RecordCounts(2, 2)})
    assert list(tmp_path.iterdir()) == []
    write_dataset(made, "pair/1", [PAIR], {"vi": RecordCounts(1, 1)})
    before = files(made)
    with pytest.raises(OSError, match="full"):
        write_dataset(made, "pair/1", failing(), {"vi": RecordCounts(2, 2)}, overwrite=True)
    with pytest.raises(ValueError, match=r"nothing is written.*hold 1 rows, but the counts say 2"):
        write_dataset(made, "pair/1", [PAIR], {"vi": RecordCounts(2, 2)}, overwrite=True)
    assert files(made) == before
    assert list(tmp_path.iterdir()) == [made]


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".made.new/data").mkdir(parents=True)
    (tmp_path / ".made.new/.polyspan-new").touch()
    (tmp_path / ".made.new/data/0").write_bytes(b"torn")
    write_dataset(tmp_path / "made", "pair/1", [PAIR], {"vi": RecordCounts(1, 1)})
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
    assert list(find_problems(tmp_path / "made")) == []


def test_only_a_dataset_is_replaced_and_only_with_overwrite(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    write_dataset(made, "pair/1", pairs(3), {"vi": RecordCounts(3, 3)})  # an empty folder is free
    with pytest.raises(ConfigError, match=r"holds a dataset already.*--overwrite"):
        write_dataset(made, "pair/1", [PAIR], {"vi": RecordCounts(1, 1)})
    write_dataset(made, "pair/1", [PAIR], {"vi": RecordCounts(1, 1)}, overwrite=True)
    assert list(read_examples(made)) == [PAIR]
    (made / "manifest.json").unlink()
    with pytest.raises(ConfigError, match=r"is no dataset: it has no manifest.json"):
        write_dataset(made, "pair/1", [PAIR], {"vi": RecordCounts(1, 1)}, overwrite=True)
    assert (made / "README.md").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is no dataset"):
        write_dataset(tmp_path / "file", "pair/1", [PAIR], {"vi": RecordCounts(1, 1)}, overwrite=True)
