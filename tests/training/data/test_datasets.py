from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from schemas import manifest, shards
from schemas.errors import DatasetError
from schemas.shards import read_examples
from tests.golden import make_anchor_mrc_1, make_clism_1
from tests.training.data.made import clism_dataset
from training.data.datasets import open_datasets
from training.methods.pretraining_tasks import CLISM, WAE


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [
        clism_dataset(tmp_path / "one", {"vi": 5, "zh": 2}, shards=3),
        clism_dataset(tmp_path / "two", {"ar": 3, "vi": 1}, shards=1, first_id=100),
    ]


def test_rows_are_numbered_through_all_folders_and_shards(folders):
    rows = open_datasets(folders, CLISM.texts)
    expected = [example.to_row() for folder in folders for example in read_examples(folder)]
    assert len(rows) == len(expected) == 11
    assert [rows[at] for at in range(11)] == expected
    langs = [rows.langs[code] for code in rows.lang_of_row]
    assert langs == [f"{row['source_lang']}-{row['target_lang']}" for row in expected]
    assert rows.dataset_of_row.tolist() == [0] * 7 + [1] * 4
    sizes = [len((row["masked_source_text"] + row["target_text"]).encode()) for row in expected]
    assert rows.bytes_of_row.tolist() == sizes
    assert rows.file_of(6) == f"{folders[0]}/data/part-00002-of-00003.arrow, row 0"
    assert rows.file_of(8) == f"{folders[1]}/data/part-00000-of-00001.arrow, row 1"
    for row in (-1, 11):
        with pytest.raises(IndexError, match=r"0\.\.10"):
            rows[row]


def test_anchor_examples_are_read_by_their_language(tmp_path):
    make_anchor_mrc_1.write(tmp_path)
    rows, expected = open_datasets([tmp_path], WAE.texts), [example.to_row() for example in read_examples(tmp_path)]
    assert [rows[at] for at in range(len(rows))] == expected
    assert [rows.langs[code] for code in rows.lang_of_row] == [row["lang"] for row in expected]
    assert rows.bytes_of_row[0] == len((expected[0]["query_text"] + expected[0]["context_text"]).encode())


def test_rows_reach_another_process_as_paths(folders):
    rows = open_datasets(folders, CLISM.texts)
    sent = pickle.dumps(rows)
    assert expected_text(rows).encode() not in sent
    again = pickle.loads(sent)
    assert again[10] == rows[10] and again.lang_of_row.tolist() == rows.lang_of_row.tolist()


def expected_text(rows) -> str:
    return rows[0]["target_text"]


def test_the_fingerprint_is_that_of_the_rows_in_their_order(folders, tmp_path):
    found = {open_datasets(order, CLISM.texts).fingerprint for order in (folders, folders[::-1], folders[:1])}
    assert len(found) == 3
    folders[0].rename(tmp_path / "moved")
    assert open_datasets([tmp_path / "moved", folders[1]], CLISM.texts).fingerprint in found


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def alter(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"sinh", b"sing").replace(b" la", b" lo"))


@pytest.mark.parametrize(
    "damage, expected",
    [(cut_short, "truncated"), (alter, "altered"), (Path.unlink, "missing")],
)
def test_a_damaged_shard_is_refused_by_name(damage, expected, folders):
    damage(folders[0] / "data" / "part-00001-of-00003.arrow")
    with pytest.raises(DatasetError, match=rf"one/data/part-00001-of-00003\.arrow.*{expected}.*Restore it"):
        open_datasets(folders, CLISM.texts)


def test_without_checksums_contents_are_not_read_but_sizes_are_compared(folders):
    alter(folders[0] / "data" / "part-00001-of-00003.arrow")
    assert len(open_datasets(folders, CLISM.texts, checksums=False)) == 11
    cut_short(folders[0] / "data" / "part-00001-of-00003.arrow")
    with pytest.raises(DatasetError, match="truncated"):
        open_datasets(folders, CLISM.texts, checksums=False)


@pytest.fixture
def hashed(monkeypatch):
    """Collects the names of files whose checksums are computed."""
    seen = []
    real = shards.sha256_of
    monkeypatch.setattr(shards, "sha256_of", lambda path: (seen.append(path.name), real(path))[1])
    return seen


def test_shards_that_were_compared_before_are_not_read_again(folders, hashed):
    stamps = open_datasets(folders, CLISM.texts).stamps
    assert len(hashed) == len(stamps) == 4
    stamps = json.loads(json.dumps(stamps))  # as the run's folder keeps them
    assert open_datasets(folders, CLISM.texts, verified=stamps).stamps == stamps
    assert len(hashed) == 4
    open_datasets(folders, CLISM.texts, verified={})
    assert len(hashed) == 8


@pytest.mark.parametrize("how", ["time", "file", "manifest"])
def test_a_shard_that_has_changed_since_is_compared_again_and_refused(how, folders, hashed):
    path = folders[0] / "data" / "part-00001-of-00003.arrow"
    stamps = open_datasets(folders, CLISM.texts).stamps
    before = path.stat()
    if how == "file":  # another file with the same size and time
        path.rename(path.with_suffix(".old"))
        path.write_bytes(path.with_suffix(".old").read_bytes())
        path.with_suffix(".old").unlink()
    alter(path)
    if how == "manifest":
        values = json.loads((folders[0] / manifest.FILE_NAME).read_text())
        values["shards"][1]["sha256"] = "0" * 64
        (folders[0] / manifest.FILE_NAME).write_text(json.dumps(values))
    if how != "time":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    hashed.clear()
    with pytest.raises(DatasetError, match=r"part-00001-of-00003\.arrow.*altered"):
        open_datasets(folders, CLISM.texts, verified=stamps)
    assert hashed == [path.name]


def test_datasets_of_two_schemas_are_refused(folders, tmp_path):
    anchors = tmp_path / "anchors"
    make_anchor_mrc_1.write(anchors)
    with pytest.raises(
        DatasetError, match=r"anchors: has schema anchor_mrc/1, but .*one has clism/1.*a run of their own"
    ):
        open_datasets([folders[0], anchors], CLISM.texts)


def test_folders_that_are_no_dataset_to_train_on_are_refused(folders, tmp_path):
    with pytest.raises(DatasetError, match="no dataset was given"):
        open_datasets([], CLISM.texts)
    with pytest.raises(DatasetError, match=r"given twice\. .* raise its weight"):
        open_datasets([folders[0], folders[1], folders[0]], CLISM.texts)
    with pytest.raises(DatasetError, match="no such folder"):
        open_datasets([tmp_path / "nowhere"], CLISM.texts)
    (folders[1] / "data" / "part-00009-of-00010.arrow").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"two: data/part-00009-of-00010\.arrow: not in the manifest"):
        open_datasets(folders, CLISM.texts)


def test_a_dataset_without_examples_is_refused(tmp_path):
    whole = make_clism_1.write(tmp_path, make_clism_1.examples()[:1], shards=1)
    empty = make_clism_1.write_file(tmp_path, whole.shards[0].file, [])
    counts: dict = {}
    (tmp_path / manifest.FILE_NAME).write_text(replace(whole, shards=(empty,), counts=counts).to_json())
    with pytest.raises(DatasetError, match=r"holds no example\. See why: polyspan-inspect stats"):
        open_datasets([tmp_path], CLISM.texts)


def test_a_manifest_that_contradicts_itself_is_refused(folders):
    path = folders[0] / manifest.FILE_NAME
    values = json.loads(path.read_text())
    values["shards"].pop()
    path.write_text(json.dumps(values))
    with pytest.raises(DatasetError, match=r"the shards hold 6 rows, but the counts say 7 .*polyspan-inspect verify"):
        open_datasets(folders, CLISM.texts)
