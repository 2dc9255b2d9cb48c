"""Tests `convert` as a function, with small files of every kind and then the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, InputError
from schemas.inspection.cli import main as inspect
from schemas.manifest import load
from schemas.mrc import RecordCounts
from schemas.shards import read_examples, read_rejects
from schemas.verification import find_problems
from training.convert import ConvertConfig, run
from training.tasks.records import read_records

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def squad(*ids: str, answer: str = "Hanoi") -> str:
    """Makes a question for each id. All have the same answer, at the start of the context."""
    answers = [{"text": answer, "answer_start": 0}]
    paragraphs = [
        {"context": f"{answer} {at}.", "qas": [{"id": id_, "question": "?", "answers": answers}]}
        for at, id_ in enumerate(ids)
    ]
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return written


def test_a_folder_holds_the_records_of_the_files_and_says_whose_they_are(write: Any, tmp_path: Path) -> None:
    paths = (write("dev-en.tsv", "One.\t1.\t1\nTwo.\tNS\t0\n"), write("test-de.tsv", "Eins.\t1.\t1\n"))
    printed = run(ConvertConfig("paws_x", paths, tmp_path / "out"))
    assert list(read_examples(tmp_path / "out", verify=True)) == read_records(paths, "paws_x").records
    index = load(tmp_path / "out")
    assert index.counts == {"de": RecordCounts(1, 1, {}, 1, 1), "en": RecordCounts(2, 2, {}, 2, 2)}
    assert index.config == {"task": "paws_x", "langs": []}
    assert [(file.corpus, file.path, file.bytes) for file in index.inputs] == [
        ("paws_x", "dev-en.tsv", 20),
        ("paws_x", "test-de.tsv", 11),
    ]
    assert list(find_problems(tmp_path / "out")) == []
    assert "out: 3 records (pair/1) of 2 files of paws_x\n" in printed
    assert "  en               2 records\n" in printed
    assert "noticed in the files:\n  untranslated         1 records\n" in printed
    assert "en: 2 records read = 2 examples + 0 refused\nen: 2 labels found = 2 labels kept + 0 refused\n" in printed
    assert "Left out" not in printed


def test_records_that_break_the_contract_are_rejects(write: Any, tmp_path: Path) -> None:
    path = write("xquad.en.json", squad("a", "", "b", ""))
    printed = run(ConvertConfig("xquad", (path,), tmp_path / "out"))
    assert [example.id for example in read_examples(tmp_path / "out")] == ["a", "b"]
    rejects = [row for batch in read_rejects(tmp_path / "out") for row in batch.to_pylist()]
    assert [(row["reason"], row["pair"], row["corpus"], row["line"]) for row in rejects] == [
        ("breaks_contract", "en", "xquad.en.json", 2),
        ("breaks_contract", "en", "xquad.en.json", 4),
    ]
    assert rejects[0]["excerpt"] == "id is empty: ? ||| Hanoi 1."
    refused = {"breaks_contract": 2}
    assert load(tmp_path / "out").totals == RecordCounts(4, 2, refused, 4, 2, refused)
    assert list(find_problems(tmp_path / "out")) == []
    assert "2 records, 2 rejects" in printed
    assert "out --rejects" in printed


def test_rejects_are_all_counted_and_some_kept(write: Any, tmp_path: Path) -> None:
    run(ConvertConfig("xquad", (write("xquad.en.json", squad("a", *[""] * 150)),), tmp_path / "out"))
    refused = {"breaks_contract": 150}
    assert load(tmp_path / "out").totals == RecordCounts(151, 1, refused, 151, 1, refused)
    assert sum(batch.num_rows for batch in read_rejects(tmp_path / "out")) == 100


def test_ids_become_unique_in_each_language(write: Any, tmp_path: Path) -> None:
    paths = (write("xquad.en.json", squad("7", "7", "7#2", "7")), write("xquad.de.json", squad("7")))
    printed = run(ConvertConfig("xquad", paths, tmp_path / "out"))
    found = [(example.lang, example.id) for example in read_examples(tmp_path / "out")]
    assert found == [("en", "7"), ("en", "7#2"), ("en", "7#2#2"), ("en", "7#3"), ("de", "7")]
    assert list(find_problems(tmp_path / "out")) == []
    assert "duplicate_id         2 records" in printed
    assert "now has #2 after it" in printed
    published = [example.source_id for example in read_examples(tmp_path / "out")]
    assert published == [None, "7", "7#2", "7", None]


def test_mlqas_questions_keep_their_ids_and_languages(write: Any, tmp_path: Path) -> None:
    names = ("de-question-de", "de-question-es", "es-question-es")
    paths = tuple(write(f"test-context-{name}.json", squad("7", "7")) for name in names)
    run(ConvertConfig("mlqa", paths, tmp_path / "out"))
    found = [(each.lang, each.query_lang, each.id, each.source_id) for each in read_examples(tmp_path / "out")]
    assert found == [
        *(("de", asked_in, *ids) for asked_in in (None, "es") for ids in (("7", None), ("7#2", "7"))),
        ("es", None, "7", None),
        ("es", None, "7#2", "7"),
    ]
    assert list(find_problems(tmp_path / "out")) == []


def test_every_label_that_is_left_out_is_counted_and_shown(write: Any, tmp_path: Path, capsys: Any) -> None:
    content = json.loads(squad("a", "", "b", "c"))
    of = [paragraph["qas"][0]["answers"][0] for paragraph in content["data"][0]["paragraphs"]]
    of[3]["answer_start"] = 3
    printed = run(ConvertConfig("xquad", (write("xquad.en.json", json.dumps(content)),), tmp_path / "out"))
    assert "en: 4 labels found = 2 labels kept + 2 refused (answer_elsewhere 1, breaks_contract 1)\n" in printed
    assert load(tmp_path / "out").totals == RecordCounts(
        4, 3, {"breaks_contract": 1}, 4, 2, {"answer_elsewhere": 1, "breaks_contract": 1}
    )
    assert list(find_problems(tmp_path / "out")) == []
    assert inspect(["show", str(tmp_path / "out"), "--rejects", "answer_elsewhere"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("en  xquad.en.json:4  c\n  label: answer_elsewhere. The context holds another text")
    assert "\n  'Hanoi' at 3, where there is 'oi 3.'\n" in shown


def test_sentences_that_a_reader_leaves_out_are_rejects(write: Any, tmp_path: Path) -> None:
    opinion = '<Opinion target="NULL" category="X" polarity="positive" from="0" to="0"/>'
    sentences = [
        f'<sentence id="1"><text>Good.</text><Opinions>{opinion}</Opinions></sentence>',
        f'<sentence id="2" OutOfScope="TRUE"><text>Odd.</text><Opinions>{opinion}</Opinions></sentence>',
    ]
    path = write("EN_REST_SB1_TEST.xml.gold", f"<Reviews>{''.join(sentences)}</Reviews>")
    printed = run(ConvertConfig("absa", (path,), tmp_path / "out"))
    assert "en: 2 records read = 1 examples + 1 refused (out_of_scope 1)\n" in printed
    assert "en: 2 labels found = 0 labels kept + 2 refused (null_target 1, out_of_scope 1)\n" in printed
    rejects = [row for batch in read_rejects(tmp_path / "out") for row in batch.to_pylist()]
    assert [(row["reason"], row["unit"], row["record_id"], row["line"]) for row in rejects] == [
        ("null_target", "label", "1", 1),
        ("out_of_scope", "record", "2", 2),
        ("out_of_scope", "label", "2", 2),
    ]
    assert list(find_problems(tmp_path / "out")) == []


def test_the_same_files_give_the_same_bytes(write: Any, tmp_path: Path) -> None:
    path = write("xquad.en.json", squad("a", "", "a", "b"))
    for name in ("one", "two"):
        run(ConvertConfig("xquad", (path,), tmp_path / name))
    one, two = (
        {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 4


def test_what_was_converted_is_read_as_the_files_are(write: Any, tmp_path: Path) -> None:
    path = write("de_pud-ud-test.iob2", "# sent_id = s1\n# text = In Hanoi.\n1\tIn\tO\t-\t-\n2\tHanoi\tB-LOC\t-\t-\n"
                 "3\t.\tO\t-\t-\n\n")  # fmt: skip
    run(ConvertConfig("universal_ner", (path,), tmp_path / "out"))
    from_file, from_folder = (read_records([each], "universal_ner", labelled=True) for each in (path, tmp_path / "out"))
    assert from_file.records == from_folder.records
    assert from_file.records[0].tags == ("O", "B-LOC", "O")


def test_what_cannot_be_converted_is_refused_before_anything_is_written(write: Any, tmp_path: Path) -> None:
    good, out = write("xquad.en.json", squad("a")), tmp_path / "out"
    with pytest.raises(ConfigError, match="Did you mean 'xquad'"):
        run(ConvertConfig("xqad", (good,), out))
    with pytest.raises(ConfigError, match="a language for each of 1 files, found 2"):
        run(ConvertConfig("xquad", (good,), out, langs=("en", "de")))
    with pytest.raises(InputError, match=r"xquad.de.json: 1 of 1 records have no label"):
        run(ConvertConfig("xquad", (write("xquad.de.json", squad("a", answer="")),), out))
    with pytest.raises(InputError, match=r"xquad.fr.json: no record can be kept: id is empty"):
        run(ConvertConfig("xquad", (write("xquad.fr.json", squad("")),), out))
    with pytest.raises(InputError, match=r"xquad.ar.json:1: not JSON"):
        run(ConvertConfig("xquad", (write("xquad.ar.json", "{"),), out))
    assert not out.exists()
    run(ConvertConfig("xquad", (good,), out))
    with pytest.raises(ConfigError, match="is a folder"):
        run(ConvertConfig("xquad", (out,), tmp_path / "again"))
    assert run(ConvertConfig("xquad", (good,), out)).startswith(f"{out}: complete, nothing to do")
    good = write("xquad.en.json", squad("b"))
    with pytest.raises(ConfigError, match=r"holds a dataset already.*--overwrite"):
        run(ConvertConfig("xquad", (good,), out))
    run(ConvertConfig("xquad", (good,), out, overwrite=True))
    assert [example.id for example in read_examples(out)] == ["b"]


# --- real files -------------------------------------------------------------------------------------------------------

REAL_FILES = [
    ("xquad", "qa/xquad/xquad.*.json", "mrc/2", 12 * 1_190, 12 * 1_190, {}),
    ("tydiqa", "qa/tydiqa/*.json", "mrc/2", 8_773, 12_450, {"duplicate_id": 3_607}),
    ("universal_ner", "ner/UNER*/*.iob2", "tagging/1", 13_075, 14_119, {"duplicate_id": 2_000}),
    ("paws_x", "pairs/pawsx/*.tsv", "pair/1", 28_000, 28_000, {"untranslated": 339}),
]


@pytest.mark.real_data
@pytest.mark.parametrize("task, pattern, schema, records, labels, noticed", REAL_FILES)
def test_real_files_keep_the_contract_and_are_shown(
    task: str,
    pattern: str,
    schema: str,
    records: int,
    labels: int,
    noticed: dict[str, int],
    tmp_path: Path,
    capsys: Any,
) -> None:
    paths = tuple(sorted(REAL.glob(pattern)))
    if not paths:
        pytest.skip("the real data are not here")
    printed = run(ConvertConfig(task, paths, tmp_path / "out"))
    index = load(tmp_path / "out")
    counts = index.totals
    assert isinstance(counts, RecordCounts)
    assert (index.schema, counts.records_read, counts.examples) == (schema, records, records)
    assert counts.record_rejects == counts.label_rejects == {} and counts.labels_found == counts.labels_kept == labels
    for reason, count in noticed.items():
        assert f"{reason:{max(map(len, noticed))}}  {count:>8,} records" in printed
    assert inspect(["verify", str(tmp_path / "out")]) == 0
    assert inspect(["show", str(tmp_path / "out"), "--count", "20"]) == 0
    shown = capsys.readouterr().out
    assert f": ok, {records:,} records in 1 shards" in shown
    assert shown.count(f"  {task}  ") == 20
    assert schema == "pair/1" or shown.count("⟦") >= 15
