from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.mrc import MrcExample, RecordCounts, problems
from schemas.spans import CharSpan
from training.tasks import mlqa, squad, tydiqa, xquad


def question(id_: str = "q1", text: str = "Hà Nội", start: int = 12, **more: Any) -> dict[str, Any]:
    return {"id": id_, "question": "Ở đâu?", "answers": [{"text": text, "answer_start": start}], **more}


def document(*questions: dict[str, Any], context: str = "Anna sống ở Hà Nội.") -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def written(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def test_a_question_becomes_a_record(tmp_path: Path) -> None:
    (example,), flags, _ = xquad.read(written(tmp_path, "xquad.vi.json", document(question())))
    assert example == MrcExample(
        "q1", "vi", "Ở đâu?", "Anna sống ở Hà Nội.", (CharSpan(12, 18),), ("Hà Nội",), True, "xquad", None
    )
    assert flags == {} and problems(example) == []


def test_questions_become_nfc_and_contexts_do_not(tmp_path: Path) -> None:
    decomposed = "So\u0302ng"
    content = document(
        {"id": "q", "question": decomposed, "answers": [{"text": "o\u0302", "answer_start": 1}]}, context=decomposed
    )
    (example,), *_ = xquad.read(written(tmp_path, "xquad.vi.json", content))
    assert example.query == "Sông" and example.context == decomposed
    assert example.answers[0].of(example.context) == "o\u0302"


@pytest.mark.parametrize(
    "given, flags, spans",
    [
        (question(start=11), {"answer_elsewhere": ["q1"]}, 0),
        (question(start=-7), {"answer_elsewhere": ["q1"]}, 0),  # no counting from the end
        (question(offset_is_first_of_many=True), {"ambiguous_offset": ["q1"]}, 1),
        (question(offset_is_first_of_many=False), {}, 1),
        (question(text="", start=0), {"unlabelled": ["q1"]}, 0),
    ],
)
def test_what_cannot_be_relied_on_is_flagged(
    given: dict[str, Any], flags: dict[str, list[str]], spans: int, tmp_path: Path
) -> None:
    (example,), found, _ = xquad.read(written(tmp_path, "xquad.vi.json", document(given)))
    assert found == flags and len(example.answers) == spans
    assert example.answerable == bool(example.answer_texts) == ("unlabelled" not in flags)


def test_every_answer_of_a_file_is_kept_or_left_out_with_a_reason(tmp_path: Path) -> None:
    twice = question("q2") | {"answers": [{"text": "Anna", "answer_start": 0}, {"text": "Anna", "answer_start": 3}]}
    examples, _, ledger = xquad.read(written(tmp_path, "xquad.vi.json", document(question(), twice)))
    assert ledger.counts(examples) == {"vi": RecordCounts(2, 2, {}, 3, 2, {"answer_elsewhere": 1})}
    assert ledger.left_out == [
        ("answer_elsewhere", "label", "vi", "q2", 2, "'Anna' at 3, where there is 'a số'"),
    ]
    with pytest.raises(ValueError, match="3 labels found, but 1 labels kept"):  # a reader that loses one without a word
        ledger.counts(examples[:1])


@pytest.mark.parametrize(
    "change, name",
    [
        ({"question": "Ở \ud800 đâu?"}, "'question'"),
        ({"id": "q\udfff"}, "'id'"),
        ({"answers": [{"text": "Hà \ud800", "answer_start": 12}]}, "'text'"),
        ({}, "'context'"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_the_question(change: dict[str, Any], name: str, tmp_path: Path) -> None:
    context = "Anna sống ở Hà Nội." if change else "Anna sống ở Hà Nội \udbff."
    path = tmp_path / "xquad.vi.json"
    path.write_text(json.dumps(document(question() | change, context=context)))  # in ASCII
    message = rf"xquad\.vi\.json: data\[0\].*qas\[0\]: question 'q.*': expected {name}, a text; found half a surrog"
    with pytest.raises(InputError, match=message):
        xquad.read(path)


def test_mlqa_keeps_the_language_of_the_questions(tmp_path: Path) -> None:
    names = {"test-context-de-question-es.json": "es", "dev-context-de-question-de.json": None, "test-de.json": None}
    for name, asked_in in names.items():
        (example,), *_ = mlqa.read(written(tmp_path, name, document(question())))
        assert (example.lang, example.query_lang, problems(example)) == ("de", asked_in, [])


def test_an_impossible_question_is_unanswerable_and_a_repeated_id_flagged(tmp_path: Path) -> None:
    impossible = {"id": "q1", "question": "?", "answers": [], "is_impossible": True}
    examples, flags, _ = squad.read(written(tmp_path, "dev-v2.0.json", document(impossible, question())))
    assert [example.answerable for example in examples] == [False, True]
    assert flags == {"duplicate_id": ["q1"]}


@pytest.mark.parametrize(
    "read, name, lang",
    [
        (squad.read, "train-v1.1.json", "en"),
        (squad.read, "squad.translate.train.en-de.json", "de"),
        (squad.read, "de_squad-translate-train-train-v1.1.json", "de"),
        (xquad.read, "xquad.el.json", "el"),
        (xquad.read, "test-el.json", "el"),
        (mlqa.read, "test-context-de-question-es.json", "de"),
        (mlqa.read, "test-de.json", "de"),
        (tydiqa.read, "tydiqa-goldp-dev-swahili.json", "sw"),
        (tydiqa.read, "tydiqa.goldp.sw.dev.json", "sw"),
        (tydiqa.read, "tydiqa.translate.train.en-sw.json", "sw"),
        (tydiqa.read, "test-sw.json", "sw"),
    ],
)
def test_the_language_is_in_the_name(read: Any, name: str, lang: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, document(question()))
    assert [example.lang for example in read(path)[0]] == [lang]
    assert [example.lang for example in read(path, "xx")[0]] == ["xx"]


def test_tydiqas_whole_files_say_the_language_in_each_id(tmp_path: Path) -> None:
    content = document(question("swahili-1-0"), question("korean--7-1"))
    examples, *_ = tydiqa.read(written(tmp_path, "tydiqa-goldp-v1.1-train.json", content))
    assert [example.lang for example in examples] == ["sw", "ko"]


def test_an_unknown_language_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine\.json: its name does not say its language\. Give it: --langs"):
        xquad.read(written(tmp_path, "mine.json", document(question())))
    with pytest.raises(InputError, match=r"mine\.json: q1: neither the file's name nor the id"):
        tydiqa.read(written(tmp_path, "mine.json", document(question())))


def test_rows_of_mlqa_name_the_questions_language_where_it_is_another() -> None:
    assert mlqa.row(Path("test-context-de-question-es.json"), "de") == "de-es"
    assert mlqa.row(Path("test-context-de-question-de.json"), "de") == "de"
    assert mlqa.row(Path("test-de.json"), "de") == "de"


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"data": [\n {"title": "t",\n', r"xquad\.de\.json:3: not JSON"),
        ("[]", "the file: expected an object, found a list"),
        ({"version": "1.1"}, "the file: expected 'data', a list; found only 'version'"),
        ({"data": [{"paragraphs": 3}]}, r"data\[0\]: expected 'paragraphs', a list; found a int"),
        (document({"id": "q1", "answers": []}), r"paragraphs\[0\]\.qas\[0\]: expected 'question'"),
        (document(question(), {"id": 7}), r"qas\[1\]: expected 'id', a str; found a int"),
        (document(question(start="3")), r"qas\[0\]\.answers\[0\]: expected 'answer_start', a int; found a str"),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_file_is_refused_with_the_place(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        xquad.read(written(tmp_path, "xquad.de.json", content))


def test_a_file_that_is_not_there_or_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        xquad.read(tmp_path / "xquad.de.json")
    (tmp_path / "xquad.de.json").write_bytes(b'{\n"a": "\xff"}')
    with pytest.raises(InputError, match=r"xquad\.de\.json:2: expected utf-8, found byte 0xff"):
        xquad.read(tmp_path / "xquad.de.json")


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
def test_every_answer_of_every_real_file_is_at_its_offset(shared_data: Path) -> None:
    questions = {}
    for read, folder in ((squad.read, "squad"), (xquad.read, "xquad"), (tydiqa.read, "tydiqa")):
        for path in sorted((shared_data / "qa" / folder).glob("*.json*")):
            examples, flags, _ = read(path)
            assert [problem for example in examples for problem in problems(example)] == []
            assert all(len(example.answers) == len(example.answer_texts) > 0 for example in examples)
            questions[path.name.removesuffix(".xz")] = (
                len(examples),
                {reason: len(ids) for reason, ids in flags.items()},
            )
    assert questions.pop("train-v1.1.rebuilt.json") == (87_599, {"ambiguous_offset": 9_438})
    assert questions.pop("dev-v1.1.rebuilt.json") == (10_570, {"ambiguous_offset": 1_659})
    assert questions.pop("tydiqa.goldp.en.train.json") == (3_696, {"duplicate_id": 3_607})  # XTREME cuts ids short
    xquads = {name: found for name, found in questions.items() if name.startswith("xquad")}
    assert len(xquads) == 12 and set(map(repr, xquads.values())) == {"(1190, {})"}
    assert [count for name, (count, _) in sorted(questions.items()) if name.startswith("tydiqa")] == [
        921, 113, 440, 782, 565, 276, 812, 499, 669,
    ]  # fmt: skip
