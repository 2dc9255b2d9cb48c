"""JSON lines in, JSON lines out."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from schemas.errors import ConfigError
from schemas.mrc import PairExample
from tests.training.tuned import METHODS, UNIFIED, named, save_tuned
from training.inference.predictor import load_predictor, predict
from training.predict import run
from training.recipes.inference import Computing, PredictConfig
from training.tasks.squad_json import read
from training.tasks.words import words_of

EMOJI = "Anna 👩‍👩‍👧 lebt in Ha\u0300 No\u0323\u0302i."
SENTENCES = [EMOJI, "تعيش آنا في هانوي.", "อันนาอยู่ที่ฮานอย", "安娜住在河内。", "हनोई में"]


@pytest.fixture(scope="module")
def models(xlmr_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {named(case): str(save_tuned(folder / named(case), xlmr_folder, *case)) for case in METHODS}


def ask(model: str, lines: list[Any], tmp_path: Path, **options: Any) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what is answered; lines that are no bytes yet become JSON."""
    raw = [line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() for line in lines]
    (tmp_path / "in.jsonl").write_bytes(b"".join(line + b"\n" for line in raw))
    config = PredictConfig(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), overwrite=True, **options)
    code = run(config)
    assert not list(tmp_path.glob(".*"))
    return code, [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().split(b"\n")[:-1]]


@pytest.mark.parametrize("model", ["Plain-qa", "Que-qa", "Unified-qa", "TwoStage-qa"])
def test_questions_get_their_best_answers(model: str, models: dict[str, str], tmp_path: Path) -> None:
    lines = [{"id": f"q{at}", "query": "Where ?", "context": text} for at, text in enumerate(SENTENCES)]
    code, found = ask(models[model], lines, tmp_path, best=3)
    assert code == 0 and [each["id"] for each in found] == ["q0", "q1", "q2", "q3", "q4"]
    for each, text in zip(found, SENTENCES, strict=True):
        assert 1 <= len(each["answers"]) <= 3 and 0 <= each["no_answer"] <= 1
        scores = [answer["score"] for answer in each["answers"]]
        assert scores == sorted(scores, reverse=True)
        for answer in each["answers"]:
            assert answer["text"] == text[answer["start_char"] : answer["end_char"]] != ""
    (one,) = ask(models[model], [{"question": "Where ?", "context": EMOJI}], tmp_path)[1]
    assert one["id"] == 1 and one["answers"] == [
        {**found[0]["answers"][0], "score": pytest.approx(found[0]["answers"][0]["score"], abs=1e-4)}
    ]


def test_a_question_is_read_as_in_evaluation(models: dict[str, str], tmp_path: Path) -> None:
    """In NFC, while the context stays as it is."""
    query = "Wo lebt sie in Ha\u0300 No\u0323\u0302i ?"
    qas = [{"id": "a", "question": query, "answers": []}]
    (tmp_path / "gold.json").write_text(json.dumps({"data": [{"paragraphs": [{"context": EMOJI, "qas": qas}]}]}))
    predictor = load_predictor(models["Plain-qa"], torch.device("cpu"))
    records = read(tmp_path / "gold.json", "xquad", "de")[0]
    (expected,) = predict(predictor.model, predictor.formulation, records, predictor.device)
    (found,) = ask(models["Plain-qa"], [{"query": query, "context": EMOJI}], tmp_path, best=20)[1]
    assert [(each["text"], each["score"]) for each in found["answers"]] == [
        (span.text, span.score) for span in expected.spans
    ]


@pytest.mark.parametrize("model", ["Plain-tagging", "Unified-tagging"])
def test_sentences_get_entities_and_their_own_words_tags(model: str, models: dict[str, str], tmp_path: Path) -> None:
    words = ["Anna", "lebt", "in", "Bonn", "."]
    text = "Anna  lebt in Bonn."
    places = [[0, 4], [6, 10], [11, 13], [14, 18], [18, 19]]
    lines = [
        *({"text": sentence} for sentence in SENTENCES),
        {"text": text, "tokens": words},
        {"text": text, "tokens": places},
        {"tokens": words},
        {"text": "", "tokens": []},
        {"text": ""},
    ]
    code, found = ask(models[model], lines, tmp_path)
    assert code == 0 and len(found) == len(lines)
    assert any(each["entities"] for each in found)
    for line, each in zip(lines, found, strict=True):
        given = line.get("text", " ".join(words))
        for entity in each["entities"]:
            assert entity["text"] == given[entity["start_char"] : entity["end_char"]] != ""
            assert entity["label"] in ("LOC", "ORG", "PER") and 0 <= entity["score"] <= 1
        assert ("tags" in each) == ("tokens" in line)
    assert len(found[5]["tags"]) == 5 and {**found[5], "id": 0} == {**found[6], "id": 0}
    assert len(found[7]["tags"]) == 5 and found[8] == {"id": 9, "entities": [], "tags": []}


@pytest.mark.parametrize("model", ["Plain-pairs", "Unified-pairs"])
def test_pairs_get_a_label(model: str, models: dict[str, str], tmp_path: Path) -> None:
    lines = [{"id": 7, "sentence1": text, "sentence2": EMOJI} for text in SENTENCES]
    code, found = ask(models[model], lines, tmp_path)
    assert code == 0 and [each["id"] for each in found] == [7] * 5
    for each in found:
        assert each["scores"].keys() == {"contradiction", "entailment", "neutral"} and "rationales" not in each
        assert each["label"] == max(each["scores"], key=each["scores"].get)


def test_rationales_are_words_of_either_sentence(models: dict[str, str], tmp_path: Path) -> None:
    first, second = "Anna lives in Hanoi 👩‍👩‍👧 .", "安娜住在河内。"
    line = {"sentence1": first, "sentence2": second}
    (found,) = ask(models["Unified-pairs"], [line], tmp_path, rationales=True, best=2)[1]
    assert [sorted(each) for each in found["rationales"]] == [
        ["end_char", "score", "sentence", "start_char", "text"]
    ] * 4
    for each in found["rationales"]:
        assert each["text"] == line[each["sentence"]][each["start_char"] : each["end_char"]] != ""
    assert {each["sentence"] for each in found["rationales"]} == {"sentence1", "sentence2"}
    for model in ("Plain-pairs", "Unified-qa"):
        with pytest.raises(ConfigError, match=r"--rationales: .* cannot give any"):
            ask(models[model], [line], tmp_path, rationales=True)


def test_bad_lines_say_what_is_wrong_in_their_place(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"query": "Wo ?", "context": "In Bonn ."}
    cases: list[tuple[Any, Any]] = [
        (good, None),
        (b"{", "line 2: expected a JSON object, found what is not JSON (Expecting property name"),
        (b"", "line 3: expected a JSON object, found a blank line"),
        ([1], "line 4: expected a JSON object, found a list"),
        ({"query": "Wo ?", "id": "x"}, "line 5: expected 'context', a string; found only 'query', 'id'"),
        ({"query": 3, "context": ""}, "line 6: expected 'query', a string; found a number"),
        ({**good, "question": "Wer ?"}, "line 7: expected 'query' or 'question', found both"),
        (b'{"query": "\xff"}', "line 8: expected UTF-8, found byte 0xff"),
        (b'{"query": "\\ud83d"}', "line 9: expected 'query', a text; found half a surrogate pair, \\ud83d"),
        ({**good, "id": [1]}, "line 10: expected 'id', a string, a number, true, false or null; found a list"),
        ({**good, "id": {}}, "line 11: expected 'id', a string, a number, true, false or null; found an object"),
        (b"[" * 100_000, "line 12: expected a JSON object, found what is not JSON"),
        (b"9" * 5_000, "line 13: expected a JSON object, found"),
        ({**good, "id": float("nan")}, "line 14: expected a JSON object, found what is not JSON"),
        (b" \t\r", "line 15: expected a JSON object, found a blank line"),
        ({**good, "id": "last", "context": "a\u2028b"}, None),
    ]  # fmt: skip
    code, found = ask(models["Plain-qa"], [line for line, _ in cases], tmp_path, batch_size=3)
    assert code == 1 and len(found) == len(cases) == 16
    for (_, expected), each in zip(cases, found, strict=True):
        assert ("answers" in each) == (expected is None)
        assert expected is None or each["error"].startswith(expected)
    assert [each["id"] for each in found] == [1, 2, 3, 4, "x", *range(6, 16), "last"]
    told = capsys.readouterr().err
    assert '14 of 16 lines could not be read: see their "error"\n' in told


def test_any_scalar_of_json_is_an_id_and_comes_back_as_it_was_spelt(models: dict[str, str], tmp_path: Path) -> None:
    ids = ["7", "-0.50", "1e400", "12345678901234567890.25", "true", "false", "null", '"x\u00e9"', '""']
    lines = [f'{{"query": "Wo ?", "id": {id_}, "context": "In Bonn ."}}'.encode() for id_ in ids]
    code, _ = ask(models["Plain-qa"], lines, tmp_path)
    told = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert code == 0 and [line.partition(', "answers"')[0] for line in told] == [f'{{"id": {id_}' for id_ in ids]


def test_who_asks_a_model_something_else_is_told_what_it_answers(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = ask(models["Plain-qa"], [{"text": "Anna"}], tmp_path)
    assert code == 1 and '1 of 1 lines could not be read: see their "error", and expected: {"query": ' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["input", "output"])
def test_a_closed_stream_is_named(
    name: str, models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.jsonl").touch()
    monkeypatch.setattr(sys, "stdin" if name == "input" else "stdout", None)  # as Python has it after `<&-`, `>&-`
    config = PredictConfig(models["Plain-qa"], str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"))
    with pytest.raises(ConfigError, match=f"standard {name} is closed: name a file with --{name}"):
        run(replace(config, **{name: "-"}))


@pytest.mark.parametrize(
    "line, message",
    [
        ({"text": "a b", "tokens": ["b", "a"]}, "'tokens' that follow one another in 'text' with nothing but blanks"),
        ({"text": "a b", "tokens": ["a"]}, "'tokens' that follow one another in 'text'"),
        ({"text": "a b", "tokens": "a b"}, "expected 'tokens', a list; found a string"),
        ({"text": "a b", "tokens": [[0, 1], "b"]}, "all of them words or all [start, end] pairs; found 'b'"),
        ({"text": "a b", "tokens": [[0, 1, 2]]}, "all [start, end] pairs; found [0, 1, 2]"),
        ({"text": "a b", "tokens": [[True, 1]]}, "all [start, end] pairs; found [True, 1]"),
        ({"text": "a b", "tokens": [[0, 4]]}, "in order and within 'text' of 3 characters; found [0, 4]"),
        ({"text": "a b", "tokens": [[2, 3], [0, 1]]}, "in order and within 'text' of 3 characters; found [0, 1]"),
        ({"tokens": [[0, 1]]}, "expected 'text', a string; found only 'tokens'"),
        ({}, "expected 'text', a string; found nothing"),
    ],
)
def test_words_that_are_not_the_texts_are_refused(
    line: dict[str, Any], message: str, models: dict[str, str], tmp_path: Path
) -> None:
    code, (found,) = ask(models["Plain-tagging"], [line], tmp_path)
    assert code == 1 and message in found["error"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("Anna's dog_1, 3.5km!", ["Anna", "'", "s", "dog_1", ",", "3", ".", "5km", "!"]),
        ("Ha\u0300 No\u0323\u0302i", ["Ha\u0300", "No\u0323\u0302i"]),
        ("हनोई में रहती।", ["हनोई", "में", "रहती", "।"]),
        ("می\u200cروم به تهران", ["می\u200cروم", "به", "تهران"]),
        ("a👩‍👩‍👧b ❤️", ["a", "👩‍👩‍👧", "b", "❤️"]),
        ("東京tower、カ゚", ["東", "京", "tower", "、", "カ゚"]),
        ("ที่กิน", ["ที่", "กิ", "น"]),
        ("서울시에 \u200b\u00a0x\u3000y\ufeff", ["서울시에", "x", "y"]),
        ("\u0301a", ["\u0301a"]),
        ("", []),
    ],
)
def test_sentences_without_words_are_cut(text: str, words: list[str]) -> None:
    assert [span.of(text) for span in words_of(text)] == words


def test_batches_change_nothing(models: dict[str, str], tmp_path: Path) -> None:
    lines = [{"text": text} for text in SENTENCES * 3]
    expected = ask(models["Unified-tagging"], lines, tmp_path)
    small = ask(models["Unified-tagging"], lines, tmp_path, batch_size=2, computing=Computing(batch_tokens=1))
    assert [[e["text"] for e in each["entities"]] for each in small[1]] == [
        [e["text"] for e in each["entities"]] for each in expected[1]
    ]


def test_lines_are_answered_one_by_one_where_someone_waits(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each answer is in the output before the next line is asked for."""
    written = io.BytesIO()

    def typed() -> Any:
        for number in range(1, 4):
            assert written.getvalue().count(b"\n") == number - 1
            yield b'{"query": "Where ?", "context": "In Bonn ."}\n'

    class Terminal:
        def __init__(self, buffer: Any) -> None:
            self.buffer = buffer

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(typed()))
    monkeypatch.setattr(sys, "stdout", Terminal(written))
    assert run(PredictConfig(models["Plain-qa"])) == 0
    assert [json.loads(line)["id"] for line in written.getvalue().splitlines()] == [1, 2, 3]
    assert 'One object a line, such as {"query": "Who won?"' in capsys.readouterr().err


def test_a_file_is_written_whole_or_not_at_all(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"query": "Wo ?", "context": "In Bonn ."}
    before = ask(models["Plain-qa"], [line], tmp_path)[1]

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.predict.answers", stopped)
    with pytest.raises(KeyboardInterrupt):
        ask(models["Plain-qa"], [line, line], tmp_path)
    assert [json.loads(each) for each in (tmp_path / "out.jsonl").read_text().splitlines()] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_an_output_that_is_there_is_replaced_only_if_it_is_asked_for(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given := tmp_path / "in.jsonl").write_text('{"query": "Wo ?", "context": "In Bonn ."}\n')
    (output := tmp_path / "out.jsonl").write_text("mine")
    (others := tmp_path / ".out.jsonl.unfinished").write_text("mine, too")
    config = PredictConfig(models["Plain-qa"], str(given), str(output))
    with pytest.raises(ConfigError, match=r"out\.jsonl: the file is there already\. Name another, or .*--overwrite"):
        run(config)
    assert output.read_text() == "mine"
    assert run(replace(config, overwrite=True)) == 0
    assert "answers" in output.read_text() and others.read_text() == "mine, too"
    assert output.stat().st_mode == given.stat().st_mode  # as every new file's

    def meanwhile(*_: Any, **__: Any) -> Any:
        (tmp_path / "new.jsonl").write_text("mine")
        return iter(())

    monkeypatch.setattr("training.predict.answers", meanwhile)
    with pytest.raises(ConfigError, match=r"new\.jsonl: the file is there already"):
        run(replace(config, output=str(tmp_path / "new.jsonl")))
    assert (tmp_path / "new.jsonl").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "out.jsonl", "new.jsonl", others.name}


def test_what_cannot_work_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    none = str(tmp_path / "none")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"input": none}, ConfigError, "none: no such file. Expected JSON lines, or -"),
        ({"output": f"{none}/x"}, ConfigError, "expected a file in a folder that exists"),
        ({"output": str(tmp_path)}, ConfigError, "expected a file in a folder that exists"),
        ({"output": "/dev/null"}, ConfigError, "--output /dev/null: no regular file. Expected one to write, or -"),
        ({"best": 0}, ConfigError, "--best: expected 1 to 20, found 0"),
        ({"best": 21}, ConfigError, "--best: expected 1 to 20, found 21"),
        ({"batch_size": 0}, ConfigError, "--batch-size: expected 1 or more, found 0"),
        ({"computing": Computing(batch_tokens=0)}, ConfigError, "--batch-tokens: expected 1 or more, found 0"),
        ({}, ConfigError, "none: no such folder"),
    ]
    for changes, error, message in cases:
        with pytest.raises(error, match=message):
            run(PredictConfig(**{"model": none, "input": str(tmp_path / "in"), **changes}))


def test_the_unified_method_asks_pairs_as_its_task_did(xlmr_folder: Path, tmp_path: Path) -> None:
    """XNLI's hypothesis is the second sentence, PAWS-X's the first: what was trained decides, not the labels alone."""
    folder = str(save_tuned(tmp_path / "model", xlmr_folder, UNIFIED, "pairs"))
    line = {"sentence1": "Anna lives in Hanoi .", "sentence2": "She does not ."}
    predictor = load_predictor(folder, torch.device("cpu"))

    def scores(task: str) -> Any:
        record = PairExample("1", "", line["sentence1"], line["sentence2"], None, task)
        return predict(predictor.model, predictor.formulation, [record], predictor.device)[0].scores

    (found,) = ask(folder, [line], tmp_path)[1]
    assert found["scores"] == scores("xnli") != scores("paws_x")
