"""What others read Arrow with reads our shards, and finds the answers where we say that they are."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

FIRST = [["Anna", "Hà Nội"], ["năm 1945", "Hà Nội"], ["آنا", "هانوي"], ["منظمة الصحة العالمية", "جنيف", "الاثنين"]]
LAST = [["สมชาย", "กรุงเทพฯ"], ["北京", "中国"], ["रवि", "मुंबई"]]


@pytest.fixture
def shards(dataset) -> list[Path]:
    return sorted((dataset / "data").glob("*.arrow"))


def answers(row) -> list[str]:
    """What a user writes, of one row of any reader."""
    return [row["target_text"][q["answer_start_char"] : q["answer_end_char"]] for q in row["questions"]]


def test_pandas(shards):
    frame = pandas.read_feather(shards[0])
    assert [answers(row) for _, row in frame.iterrows()] == FIRST


def test_pyarrow_dataset(dataset):
    table = pyarrow.dataset.dataset(dataset / "data", format="ipc").to_table()
    assert [answers(row) for row in table.to_pylist()] == FIRST + LAST
    only = pyarrow.dataset.dataset(dataset / "data", format="ipc").to_table(filter=pc.field("target_lang") == "zh")
    assert [answers(row) for row in only.to_pylist()] == [LAST[1]]


POLARS_ANSWERS = polars.col("target_text").str.slice(
    polars.col("questions").struct.field("answer_start_char"),
    (
        polars.col("questions").struct.field("answer_end_char")
        - polars.col("questions").struct.field("answer_start_char")
    ).cast(polars.UInt32),
)


def test_polars(shards):
    frame = polars.read_ipc(shards[0])
    assert [answers(row) for row in frame.to_dicts()] == FIRST


def test_polars_slices_the_answers_itself(shards):
    lazy = polars.scan_ipc(shards).explode("questions").select(POLARS_ANSWERS)
    assert lazy.collect().to_series().to_list() == [answer for row in FIRST + LAST for answer in row]


SQL_ANSWERS = """
    SELECT substring(target_text, q.answer_start_char + 1, q.answer_end_char - q.answer_start_char)
    FROM (SELECT line, target_text, unnest(questions) AS q FROM examples) ORDER BY line, q.que_start_char
"""


def test_duckdb_slices_the_answers_itself(dataset):
    examples = pyarrow.dataset.dataset(dataset / "data", format="ipc")  # which the query finds by its name
    rows = duckdb.connect().execute(SQL_ANSWERS).fetchall()
    assert examples is not None
    assert [answer for (answer,) in rows] == [answer for row in FIRST + LAST for answer in row]


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    import datasets  # which reads the environment when it is imported

    return datasets


def test_hugging_face_datasets(datasets, shards, tmp_path):
    loaded = datasets.load_dataset(
        "arrow", data_files=[str(path) for path in shards], split="train", cache_dir=str(tmp_path / "cache")
    )
    assert [answers(row) for row in loaded] == FIRST + LAST


def test_hugging_face_datasets_loads_the_folder_as_its_card_says(datasets, dataset, tmp_path):
    """The folder holds other Arrow files, the rejects: the card's front matter keeps them out."""
    loaded = datasets.load_dataset(str(dataset), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train"]
    assert [answers(row) for row in loaded["train"]] == FIRST + LAST


# --- anchor-MRC ------------------------------------------------------------------------------------------------------

EN, ALL = [["cloze"], ["Hanoi", "Hanoi"], []], 11


@pytest.fixture
def anchor_shards(anchors) -> list[Path]:
    return sorted((anchors / "data").glob("*.arrow"))


def spans(rows) -> list[list[str]]:
    """The answers of the English rows of any reader."""
    texts = [
        [row["context_text"][a["start_char"] : a["end_char"]] for a in row["answers"]]
        for row in rows
        if row["lang"] == "en" and row["answerable"] == isinstance(row["anchor_text"], str)  # pandas: NaN
    ]
    assert all("[MASK]" in row["query_text"] and row["mention_article"]["page_id"] > 1000 for row in rows)
    return texts


def test_pandas_reads_anchors(anchor_shards):
    assert spans([row for _, row in pandas.read_feather(anchor_shards[0]).iterrows()]) == EN


def test_pyarrow_dataset_reads_anchors(anchors):
    table = pyarrow.dataset.dataset(anchors / "data", format="ipc").to_table(filter=pc.field("lang") == "en")
    assert spans(table.to_pylist()) == EN


def test_polars_reads_anchors(anchor_shards):
    assert spans(polars.read_ipc(anchor_shards[0]).to_dicts()) == EN
    counted = polars.scan_ipc(anchor_shards).group_by("lang").agg(polars.col("entity").n_unique()).collect()
    assert counted["entity"].sum() == 9


def test_duckdb_slices_the_anchors_itself(anchors):
    examples = pyarrow.dataset.dataset(anchors / "data", format="ipc")  # which the query finds by its name
    rows = (
        duckdb.connect()
        .execute(
            "SELECT anchor_text, substring(context_text, a.start_char + 1, a.end_char - a.start_char) "
            "FROM (SELECT anchor_text, context_text, unnest(answers) AS a FROM examples)"
        )
        .fetchall()
    )
    assert examples is not None
    assert len(rows) == ALL and all(anchor == answer for anchor, answer in rows)


def test_hugging_face_datasets_loads_the_folder_of_anchors(datasets, anchors, tmp_path):
    loaded = datasets.load_dataset(str(anchors), cache_dir=str(tmp_path / "cache"))
    assert spans(list(loaded["train"])) == EN


# --- labelled records and candidates ---------------------------------------------------------------------------------


def covered(rows, text: str, spans: str) -> list[list[str]]:
    """What the spans of each row of any reader cover."""
    return [[row[text][span["start_char"] : span["end_char"]] for span in row[spans]] for row in rows]


RECORDS = [
    ("mrc/1", "context", "answers", [["هانوي"], ["Hanoi", "Hanoi"], [], []]),
    (
        "tagging/1",
        "text",
        "tokens",
        [["آنا", "تعيش", "في", "هانوي", "."], ["😀", "Anna", "Lee", "lives", "in", "Hanoi", "."]],
    ),
]


@pytest.mark.parametrize("schema, text, spans, first", RECORDS)
def test_everybody_reads_records(golden_records, tmp_path, schema, text, spans, first):
    golden_records.write(tmp_path, schema)
    shards = sorted((tmp_path / "data").glob("*.arrow"))
    table = pyarrow.dataset.dataset(tmp_path / "data", format="ipc").to_table()
    frame = pandas.read_feather(shards[0])
    select = f'SELECT {text}, {spans} FROM "table"'  # which the query finds by its name
    for rows in (
        [row for _, row in frame.iterrows()],
        table.to_pylist(),
        polars.read_ipc(shards[0]).to_dicts(),
        [dict(zip((text, spans), row, strict=True)) for row in duckdb.connect().execute(select).fetchall()],
    ):
        assert covered(rows, text, spans)[: len(first)] == first


def test_everybody_reads_pairs_and_candidates(golden_records, tmp_path):
    for schema in ("pair/1", "candidates/1"):
        golden_records.write(tmp_path / schema, schema, shards=1)
    pair, candidate = (next((tmp_path / schema / "data").glob("*.arrow")) for schema in ("pair/1", "candidates/1"))
    assert pandas.read_feather(pair)["label"].fillna("none").tolist() == ["1", "1", "0", "none", "1"]
    assert polars.read_ipc(pair)["label"].to_list() == ["1", "1", "0", None, "1"]
    assert polars.read_ipc(candidate)["gold_rank"].to_list() == [1, 2, None]
    best = pandas.read_feather(candidate)["candidates"][1][1]
    assert best == {"start_char": 16, "end_char": 21, "score": 0.25}


@pytest.mark.parametrize("schema, text, spans, first", RECORDS)
def test_hugging_face_datasets_loads_the_folder_of_records(
    datasets, golden_records, tmp_path, schema, text, spans, first
):
    golden_records.write(tmp_path / "made", schema)
    loaded = datasets.load_dataset(str(tmp_path / "made"), cache_dir=str(tmp_path / "cache"))
    assert covered(list(loaded["train"]), text, spans)[: len(first)] == first
