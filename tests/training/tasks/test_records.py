"""What a command's files come to: records in order, what was noticed in them, and what is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, DatasetError, InputError
from schemas.mrc import MrcExample, PairExample, RecordCounts, TaggingExample
from schemas.spans import CharSpan
from training import convert, score
from training.convert import ConvertConfig
from training.data.dataset_writer import write_dataset
from training.recipes.scoring import ScoreConfig
from training.tasks.catalog import TASKS
from training.tasks.records import few, labels_of, read_records

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
REAL = Path(__file__).resolve().parents[3].parent / "shared" / "data"
PAIR = PairExample("1", "de", "Anna wohnt in Hanoi.", "In Hanoi wohnt Anna.", "1", "paws_x")


def pair_lines(*lines: tuple[str, ...]) -> str:
    return "".join("\t".join(line) + "\n" for line in lines)


def squad(*questions: tuple[str, str | None]) -> str:
    """(id, answer at the start of its context; None: blanked as XTREME does)"""
    paragraphs = []
    for id_, answer in questions:
        answers = [{"text": answer or "", "answer_start": 0}]
        paragraphs.append(
            {"context": f"{answer} it is.", "qas": [{"id": id_, "question": f"{id_}?", "answers": answers}]}
        )
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """dev-de.tsv and dev-en.tsv of PAWS-X, one and two pairs; xquad.{en,de}.json, two questions each; and others."""
    contents = {
        "dev-de.tsv": pair_lines(("Eins.", "1.", "1")),
        "dev-en.tsv": pair_lines(("One.", "1.", "1"), ("Two.", "3.", "0")),
        "test-en.tsv": pair_lines(("One.", "1."), ("Two.", "2.")),
        "xquad.en.json": squad(("a", "Hanoi"), ("b", "Bonn")),
        "xquad.de.json": squad(("a", "Hanoi"), ("a", "Bonn")),
        "xquad.fr.json": squad(("a", "Hanoi"), ("b", None)),
        "empty-en.tsv": "",
        "nameless.tsv": pair_lines(("One.", "1.", "1")),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    write_dataset(tmp_path / "pairs", "pair/1", [PAIR], {"de": RecordCounts(1, 1)})
    return {path.name: path for path in tmp_path.iterdir()}


def test_records_come_in_the_order_of_the_files(files: dict[str, Path]) -> None:
    read = read_records([files["dev-en.tsv"], files["pairs"], files["dev-de.tsv"]], "paws_x", labelled=True)
    assert [record.sentence1 for record in read.records] == ["One.", "Two.", PAIR.sentence1, "Eins."]
    assert [record.lang for record in read.records] == ["en", "en", "de", "de"]
    assert [source.records for source in read.sources] == [2, 1, 1]
    assert read.task is TASKS["paws_x"]
    assert read.flags == {}


def test_a_fingerprint_follows_from_position_name_and_content(files: dict[str, Path]) -> None:
    read = read_records([files["dev-en.tsv"], files["pairs"]], "paws_x")
    assert read.files == {
        "1 dev-en.tsv": hashlib.sha256(files["dev-en.tsv"].read_bytes()).hexdigest(),
        "2 pairs": hashlib.sha256((files["pairs"] / "manifest.json").read_bytes()).hexdigest(),
    }


def test_a_language_is_given_where_the_name_does_not_say_it(files: dict[str, Path]) -> None:
    read = read_records([files["nameless.tsv"], files["dev-de.tsv"]], "paws_x", ["ja", "de"])
    assert [record.lang for record in read.records] == ["ja", "de"]
    with pytest.raises(InputError, match="name does not say its language"):
        read_records([files["nameless.tsv"]], "paws_x")


def test_ids_need_only_tell_records_of_a_language_apart_and_else_are_counted(files: dict[str, Path]) -> None:
    english, german = files["xquad.en.json"], files["xquad.de.json"]
    assert read_records([english], "xquad").flags == {}
    assert read_records([english, german], "xquad").flags == {"duplicate_id": 1}
    assert read_records([english, german], "xquad", ["en", "en"]).flags == {"duplicate_id": 2}


def test_records_without_labels_are_refused_only_where_they_are_needed(files: dict[str, Path], tmp_path: Path) -> None:
    assert read_records([files["test-en.tsv"]], "paws_x").flags == {"unlabelled": 2}
    with pytest.raises(InputError, match=r"test-en.tsv: 2 of 2 records have no label.*XTREME"):
        read_records([files["dev-en.tsv"], files["test-en.tsv"]], "paws_x", labelled=True)
    with pytest.raises(InputError, match=r"xquad.fr.json: 1 of 2 records have no label"):
        read_records([files["xquad.fr.json"]], "xquad", labelled=True)
    write_dataset(tmp_path / "p", "pair/1", [PAIR, replace(PAIR, id="2", label=None)], {"de": RecordCounts(2, 2)})
    with pytest.raises(InputError, match=r"1 of 2 records have no label"):
        read_records([tmp_path / "p"], "paws_x", labelled=True)
    tagged = TaggingExample("1", "de", "Hanoi", (CharSpan(0, 5),), (), "conll")
    write_dataset(tmp_path / "t", "tagging/1", [tagged], {"de": RecordCounts(1, 1)})
    assert read_records([tmp_path / "t"], "conll").flags == {"unlabelled": 1}
    with pytest.raises(InputError, match=r"1 of 1 records have no label"):
        read_records([tmp_path / "t"], "conll", labelled=True)


BLANK = squad(("a", None), ("b", None))
UNLABELLED = {
    "squad": ("dev-v1.1.json", BLANK),
    "xquad": ("xquad.de.json", BLANK),
    "mlqa": ("test-context-de-question-es.json", BLANK),
    "tydiqa": ("tydiqa-goldp-dev-finnish.json", BLANK),
    "wikiann": ("test-de.tsv", "In\nBonn\n\nEms\n"),
    "conll": ("deu.testb", "In\nBonn\n\nEms\n"),
    "universal_ner": ("de_pud-ud-test.iob2", "# text = In Bonn\n1\tIn\n2\tBonn\n\n# text = Ems\n1\tEms\n"),
    "absa": (
        "EN_REST_SB1_TEST.xml",
        '<Reviews><sentence id="1"><text>A.</text></sentence><sentence id="2"><text>B.</text></sentence></Reviews>',
    ),
    "paws_x": ("test-de.tsv", pair_lines(("Eins.", "1."), ("Zwei.", "2."))),
    "xnli": ("xnli.test.tsv", "language\tgold_label\tsentence1\tsentence2\nde\t\tA\tB\nde\t \tC\tD\n"),
}


@pytest.mark.parametrize("task", TASKS)
def test_files_without_labels_are_treated_alike_by_all_tasks(task: str, tmp_path: Path) -> None:
    assert task in UNLABELLED, f"UNLABELLED above needs a file of {task} with two records without labels"
    name, content = UNLABELLED[task]
    (path := tmp_path / name).write_text(content, encoding="utf-8")
    (predictions := tmp_path / "predictions").write_text("{}", encoding="utf-8")
    read = read_records([path], task)  # as evaluate does
    assert read.flags == {"unlabelled": 2} and len(read.records) == 2
    assert [each for each in read.accounts if "labels" in each] == []
    refusal = rf"{name}: 2 of 2 records have no label\. XTREME takes the labels out of its test files: give the file as"
    with pytest.raises(InputError, match=refusal):
        read_records([path], task, labelled=True)  # as finetune and few-shot do
    with pytest.raises(InputError, match=refusal):
        score.run(ScoreConfig(task, (path,), (predictions,)))
    with pytest.raises(InputError, match=refusal):
        convert.run(ConvertConfig(task, (path,), tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_accounts_name_all_labels(files: dict[str, Path]) -> None:
    read = read_records([files["dev-en.tsv"], files["pairs"], files["xquad.en.json"].with_name("dev-de.tsv")], "paws_x")
    assert read.counts == {"de": RecordCounts(2, 2, {}, 2, 2), "en": RecordCounts(2, 2, {}, 2, 2)}
    assert read.accounts == [
        "4 records read = 4 examples + 0 refused",
        "4 labels found = 4 labels kept + 0 refused",
    ]


def test_a_folder_of_an_older_version_is_read(tmp_path: Path) -> None:
    read = read_records([GOLDEN / "mrc-1"], "squad")
    assert len(read.records) == 8 and read.counts["en"].labels_kept == 3
    assert {(record.query_lang, record.source_id) for record in read.records} == {(None, None)}  # type: ignore[union-attr]
    write_dataset(tmp_path / "new", "mrc/2", read.records, read.counts)
    assert read_records([tmp_path / "new"], "squad").records == read.records


def test_unanswerable_questions_of_a_folder_have_their_label(tmp_path: Path) -> None:
    row = MrcExample("1", "en", "Where?", "It is not told.", (), (), False, "mine", None)
    write_dataset(tmp_path / "q", "mrc/1", [row], {"en": RecordCounts(1, 1)})
    assert read_records([tmp_path / "q"], "squad", labelled=True).records == [row]


@pytest.mark.parametrize(
    "names, task, langs, error, said",
    [
        (["dev-de.tsv"], "paws-x", (), ConfigError, "unknown task 'paws-x'. Did you mean 'paws_x'"),
        (["dev-de.tsv"], "?", (), ConfigError, "Tasks: squad, xquad"),
        ([], "paws_x", (), ConfigError, "no files: name those of paws_x, or dataset folders of pair/1"),
        (["dev-de.tsv", "dev-en.tsv"], "paws_x", ("de",), ConfigError, "a language for each of 2 files, found 1"),
        (["dev-de.tsv", "dev-de.tsv"], "paws_x", (), ConfigError, "dev-de.tsv: given twice"),
        (["empty-en.tsv"], "paws_x", ("en",), InputError, "empty-en.tsv: holds no record"),
        (["dev-de.tsv", "absent.tsv"], "paws_x", (), ConfigError, "absent.tsv: no such file or folder"),
        (
            ["pairs"],
            "xquad",
            (),
            ConfigError,
            "has schema pair/1, but the task reads mrc/2. Records of pair/1 are for p",
        ),
        (["pairs"], "paws_x", ("en",), ConfigError, "its records are of de, but its language is 'en'"),
        (["dev-de.tsv", "pairs"], "xnli", (), InputError, "dev-de.tsv:1: expected a label of contradiction"),
    ],
)
def test_what_cannot_work_is_refused(
    files: dict[str, Path], tmp_path: Path, names: list[str], task: str, langs: tuple[str, ...], error: Any, said: str
) -> None:
    with pytest.raises(error) as raised:
        read_records([tmp_path / name for name in names], task, langs)
    assert said in str(raised.value)


def test_a_damaged_folder_is_refused_by_name(files: dict[str, Path]) -> None:
    shard = files["pairs"] / "data/part-00000-of-00001.arrow"
    content = bytearray(shard.read_bytes())
    content[content.index(b"Anna")] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DatasetError, match=r"part-00000-of-00001.arrow: expected SHA-256"):
        read_records([files["pairs"]], "paws_x")
    (files["pairs"] / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="not a dataset"):
        read_records([files["pairs"]], "paws_x")


# --- few-shot draws ---------------------------------------------------------------------------------------------------


def many(count: int) -> list[PairExample]:
    return [replace(PAIR, id=f"{n}", sentence1=f"Satz {n}.") for n in range(count)]


def test_a_draw_depends_on_the_records_and_not_on_their_order_or_ids() -> None:
    drawn = few(many(200), 64, sample=1)
    assert few(many(200)[::-1], 64, sample=1) == drawn
    renamed = [replace(record, id=f"dev.tsv:{record.id}") for record in many(200)]
    assert [record.sentence1 for record in few(renamed, 64, sample=1)] == [record.sentence1 for record in drawn]
    same = [replace(record, id="0") for record in many(200)]  # as in the published TyDiQA-GoldP
    assert [record.sentence1 for record in few(same, 64, sample=1)] == [record.sentence1 for record in drawn]


def test_a_smaller_draw_of_a_sample_is_part_of_the_larger_and_another_sample_is_not() -> None:
    large = few(many(400), 128, sample=1)
    assert few(many(400), 64, sample=1) == large[:64]
    assert len(set(large)) == 128
    shared = {record.id for record in large} & {record.id for record in few(many(400), 128, sample=2)}
    assert 20 < len(shared) < 65  # 128 · 128 / 400 = 41 by chance


def test_a_draw_is_from_all_over_the_records() -> None:
    fifths = [int(record.id) // 200 for record in few(many(1000), 100, sample=3)]
    assert all(8 <= fifths.count(fifth) <= 34 for fifth in range(5))


def test_a_draw_of_questions_is_that_of_their_texts_whatever_else_is_known_of_them() -> None:
    asked = [
        MrcExample(f"{n}", "de", f"Wer ist {n}?", f"{n} ist hier.", (), (), False, "mlqa", None, None, None)
        for n in range(50)
    ]
    known = [replace(each, query_lang="es", source_id="x", id=f"x#{at}") for at, each in enumerate(asked)]
    drawn = few(asked, 10, sample=1)
    assert [each.query for each in few(known, 10, sample=1)] == [each.query for each in drawn]
    assert [each.id for each in drawn][:4] == ["13", "23", "30", "26"]


def test_a_draw_stays_what_it_is() -> None:
    assert [record.id for record in few(many(1000), 5, sample=1)] == ["593", "554", "316", "838", "270"]


@pytest.mark.parametrize("examples", [0, 6])
def test_more_than_there_are_cannot_be_drawn(examples: int) -> None:
    with pytest.raises(ConfigError, match=rf"1\.\.5, the records that there are; found {examples}"):
        few(many(5), examples, sample=1)


# --- labels -----------------------------------------------------------------------------------------------------------


def test_labels_are_the_tasks_in_its_order() -> None:
    tagged = TaggingExample("1", "de", "Hanoi", (CharSpan(0, 5),), ("B-LOC",), "conll")
    assert labels_of([tagged], "conll") == TASKS["conll"].labels
    assert labels_of([PAIR, replace(PAIR, label=None)], "paws_x") == TASKS["paws_x"].labels
    question = MrcExample("1", "en", "Where?", "Here.", (), (), False, "xquad", "LOC")
    assert labels_of([question], "xquad") == ()


def test_a_label_that_the_task_does_not_have_is_refused() -> None:
    tagged = TaggingExample("s7", "de", "Hanoi", (CharSpan(0, 5),), ("B-MISC",), "conll")
    with pytest.raises(InputError, match=r"record s7 \(de\): expected a label of wikiann.*found 'MISC'"):
        labels_of([tagged], "wikiann")
    with pytest.raises(InputError, match=r"expected a label of xnli.*found '1'"):
        labels_of([PAIR], "xnli")


# --- real files -------------------------------------------------------------------------------------------------------


@pytest.mark.real_data
def test_real_files_of_every_kind_are_read_together() -> None:
    if not REAL.exists():
        pytest.skip("the real data are not here")
    treebanks = sorted(REAL.glob("ner/UNER*/*.iob2"))
    read = read_records(treebanks, "universal_ner", labelled=True)
    assert (len(read.records), dict(read.flags)) == (13_075, {"duplicate_id": 2_000})  # Chinese batch-0000-0001 …
    assert labels_of(read.records, "universal_ner") == ("LOC", "ORG", "PER")
    english = read_records([REAL / "qa/tydiqa/tydiqa.goldp.en.train.json"], "tydiqa", labelled=True)
    assert english.flags == {"duplicate_id": 3_607}
    drawn = few(english.records, 64, sample=1)
    assert len({record.context for record in drawn}) > 60  # ids are useless there, and the draw is none the worse
