from __future__ import annotations

import hashlib
import io
import re
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.clism import ARROW_SCHEMA, ClismExample, ClismQuestion, problems
from schemas.errors import DatasetError
from schemas.manifest import load
from schemas.rejects import Reject
from schemas.shards import ROWS_PER_BATCH, read_examples, read_rejects, read_shards, shard_name, write_shard

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLE = ClismExample(
    id="8f",
    source_lang="en",
    target_lang="vi",
    source_text="Anna lives in Hanoi.",
    masked_source_text="[QUE] lives in [QUE].",
    target_text="Anna sống ở Hà Nội.",
    questions=(ClismQuestion(0, 0, 4, 0, 4, "PERSON", 0.5), ClismQuestion(15, 14, 19, 12, 18, "GPE", 0.25)),
    corpus="news.en",
    line=17,
)


def table_of(rows: int) -> pa.Table:
    """Rows of many lengths, with one to three questions: slices of them cut through every buffer."""
    plain = [
        {**EXAMPLE.to_row(), "id": f"{row:06x}", "target_text": "Hà Nội" * (row % 7), "line": row}
        | {"questions": EXAMPLE.to_row()["questions"][: row % 3]}
        for row in range(rows)
    ]
    return pa.Table.from_pylist(plain, schema=ARROW_SCHEMA)


def bytes_of(rows) -> bytes:
    stream = io.BytesIO()
    write_shard(stream, rows, ARROW_SCHEMA)
    return stream.getvalue()


TABLE = table_of(ROWS_PER_BATCH + 900)
BYTES = bytes_of(TABLE)


def test_shard_names_sort_in_order():
    names = [shard_name(index, 16) for index in range(16)]
    assert names[0] == "part-00000-of-00016.arrow"
    assert names == sorted(names)
    with pytest.raises(ValueError, match="found 16"):
        shard_name(16, 16)


def test_an_example_comes_back_from_a_row_as_it_was():
    assert ClismExample.from_row(EXAMPLE.to_row()) == EXAMPLE
    (row,) = pa.Table.from_pylist([EXAMPLE.to_row()], schema=ARROW_SCHEMA).to_pylist()
    assert ClismExample.from_row(row) == EXAMPLE
    assert list(row) == ARROW_SCHEMA.names
    assert problems(EXAMPLE) == []


@given(cuts=st.lists(st.integers(0, TABLE.num_rows), max_size=6))
def test_a_shards_bytes_depend_on_its_rows_and_not_on_how_they_were_batched(cuts):
    edges = [0, *sorted(cuts), TABLE.num_rows]
    parts = [TABLE.slice(start, end - start) for start, end in pairwise(edges)]
    assert bytes_of(pa.concat_tables(parts)) == BYTES
    assert bytes_of(batch for part in parts for batch in part.to_batches()) == BYTES


def test_a_shard_tells_nothing_of_the_table_that_it_was_cut_from():
    rows = [{**EXAMPLE.to_row(), "target_text": text} for text in ("Hà Nội", "Đà Nẵng")]
    both = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    alone = pa.Table.from_pylist(rows[:1], schema=ARROW_SCHEMA)
    assert bytes_of(both.slice(0, 1)) == bytes_of(alone)
    assert "Nẵng".encode() not in bytes_of(both.slice(0, 1))


def test_a_shard_has_small_uncompressed_batches_and_says_its_schema():
    reader = pa.ipc.open_file(io.BytesIO(BYTES))
    assert [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)] == [ROWS_PER_BATCH, 900]
    assert reader.schema.equals(ARROW_SCHEMA, check_metadata=True)
    assert reader.schema.metadata == {b"polyspan.schema": b"clism/1"}
    assert "Hà NộiHà Nội".encode() in BYTES


def test_what_write_shard_says_is_what_stands_in_the_stream():
    stream = io.BytesIO()
    info = write_shard(stream, TABLE, ARROW_SCHEMA)
    content = stream.getvalue()  # fails if the stream was closed
    assert info == (TABLE.num_rows, len(content), hashlib.sha256(content).hexdigest())


def test_a_stream_need_only_take_bytes():
    class Remote:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(bytes(data))

    remote = Remote()
    write_shard(remote, TABLE, ARROW_SCHEMA)
    assert b"".join(remote.parts) == BYTES


def test_a_shard_without_rows_is_a_shard():
    info = write_shard(stream := io.BytesIO(), iter(()), ARROW_SCHEMA)
    assert info.rows == 0
    assert pa.ipc.open_file(stream.getvalue()).read_all().schema == ARROW_SCHEMA


def test_rows_of_another_schema_are_refused():
    with pytest.raises(ValueError, match="expected rows of schema"):
        bytes_of(pa.table({"id": ["8f"]}))


@pytest.mark.parametrize("row", [{"target_text": None}, {"questions": [{"entity_label": None}]}])
def test_nulls_are_refused_where_the_schema_allows_none(row):
    question = EXAMPLE.to_row()["questions"][0]
    row = {**EXAMPLE.to_row(), **row}
    row["questions"] = [{**question, **each} for each in row["questions"]]
    with pytest.raises(ValueError, match="holds 1 nulls"):
        bytes_of(pa.Table.from_pylist([row], schema=ARROW_SCHEMA))


def test_a_dataset_is_read_in_the_order_of_its_shards(golden, dataset):
    assert list(read_examples(dataset)) == golden.examples()
    assert list(read_examples(dataset, verify=True)) == golden.examples()


def test_columns_are_read_alone(dataset):
    tables = [batch.to_pydict() for batch in read_shards(dataset, columns=["line"])]
    assert tables == [{"line": [1, 2, 3, 4]}, {"line": [5, 6, 7]}]


def test_shards_are_mapped_and_not_copied(dataset):
    before = pa.total_allocated_bytes()
    batches = list(read_shards(dataset))
    assert batches[0].num_rows == 4
    assert pa.total_allocated_bytes() == before


def test_rejects_are_read_too(dataset):
    (batch,) = read_rejects(dataset)
    assert Reject(**batch.to_pylist()[0]) == Reject(
        "no_mention", "pair", f"{100:020x}", "en-ar", "golden", 100, "Hello. ||| …"
    )


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[:-100])
    elif how == "longer":
        path.write_bytes(content + b"\0" * 8)
    elif how == "altered":
        path.write_bytes(content.replace("Hà Nội".encode(), "Hà Nộj".encode()))
    elif how == "stray":
        path.with_name(shard_name(2, 3)).write_bytes(content)


@pytest.mark.parametrize(
    "how, file, said",
    [
        ("missing", "part-00001-of-00002", "the shard is missing"),
        ("truncated", "part-00000-of-00002", "it is truncated"),
        ("longer", "part-00000-of-00002", "it was altered"),
        ("stray", "part-00002-of-00003", "not in the manifest"),
    ],
)
def test_a_damaged_folder_is_refused_before_the_first_row(dataset, how, file, said):
    damage(dataset / "data" / ("part-00001-of-00002.arrow" if how == "missing" else "part-00000-of-00002.arrow"), how)
    with pytest.raises(DatasetError, match=f"{file}.*{said}"):
        read_shards(dataset)


def test_an_altered_shard_is_refused_when_checksums_are_compared(dataset):
    damage(dataset / "data/part-00000-of-00002.arrow", "altered")
    read_shards(dataset)
    with pytest.raises(DatasetError, match=r"part-00000-of-00002.*expected SHA-256"):
        read_shards(dataset, verify=True)


def replace_shard(folder: Path, content: bytes) -> None:
    """Makes the first shard `content`, and the manifest agree with it."""
    entry = load(folder).shards[0]
    (folder / entry.file).write_bytes(content)
    text = (folder / "manifest.json").read_text()
    text = text.replace(f'"bytes": {entry.bytes}', f'"bytes": {len(content)}', 1)
    text = text.replace(entry.sha256, hashlib.sha256(content).hexdigest())
    (folder / "manifest.json").write_text(text)


@pytest.mark.parametrize(
    "metadata, said",
    [({"polyspan.schema": "clism/9"}, "expected schema clism/1, found clism/9"), (None, "found none")],
)
def test_a_shard_of_another_schema_version_is_refused_by_name(dataset, metadata, said):
    schema = ARROW_SCHEMA.with_metadata(metadata)
    stream = io.BytesIO()
    write_shard(stream, table_of(4), schema)
    replace_shard(dataset, stream.getvalue())
    with pytest.raises(DatasetError, match=said):
        read_shards(dataset)


def test_a_shard_whose_fields_are_not_those_of_its_version_is_refused(dataset):
    schema = pa.schema([pa.field("id", pa.string())], metadata=ARROW_SCHEMA.metadata)
    stream = io.BytesIO()
    write_shard(stream, pa.table({"id": ["a"]}, schema=schema), schema)
    replace_shard(dataset, stream.getvalue())
    with pytest.raises(DatasetError, match="its fields differ"):
        read_shards(dataset)


@pytest.mark.parametrize("content", [b"", b"not Arrow at all", BYTES[: len(BYTES) // 2]])
def test_a_file_that_is_not_arrow_is_refused(dataset, content):
    replace_shard(dataset, content)
    with pytest.raises(DatasetError, match=r"part-00000-of-00002.*not an Arrow IPC file"):
        read_shards(dataset)


def test_a_shard_with_other_rows_than_the_manifest_says_is_refused(dataset):
    replace_shard(dataset, bytes_of(table_of(5)))
    with pytest.raises(DatasetError, match="expected 4 rows, found 5"):
        read_shards(dataset)


def test_a_manifest_of_an_unknown_schema_is_refused_by_name(dataset):
    path = dataset / "manifest.json"
    path.write_text(path.read_text().replace('"clism/1"', '"clism/9"'))
    with pytest.raises(DatasetError, match=re.escape("schema clism/9 is not one that this release of polyspan reads")):
        read_shards(dataset)


def test_files_whose_names_begin_with_a_dot_are_nobodys(dataset):
    (dataset / "data/.DS_Store").write_bytes(b"")
    assert len(list(read_examples(dataset))) == 7


def test_the_golden_dataset_of_clism_1_is_still_read(golden):
    assert list(read_examples(GOLDEN / "clism-1", verify=True)) == golden.examples()
    assert [problems(example) for example in golden.examples()] == [[]] * 7


def test_the_golden_dataset_is_still_written_byte_for_byte(golden, tmp_path):
    golden.write(tmp_path)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) == 5
    for file in files:
        assert (tmp_path / file).read_bytes() == (GOLDEN / "clism-1" / file).read_bytes(), file
