"""Translates small files with a model that substitutes words, so that texts and labels are known exactly."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.manifest import load
from schemas.runtime.output_folder import NEW
from schemas.shards import read_examples, read_rejects
from schemas.spans import CharSpan
from schemas.translations import TranslationCounts
from schemas.verification import find_problems
from tests.kill_points import KILLED, run_in_child
from tests.training import translation_models as models
from training import translate as translation
from training.cli import main
from training.metrics.tags import entities
from training.recipes.translate import TranslateConfig
from training.tasks.records import read_records
from training.translate import run

NAMES = "Anna Ben Clara Hanoi Bonn Lima".split()
OTHERS = "lives works sleeps reads in near with the old new big house".split()
LEXICON = {word: f"{word[::-1].lower()}x" for word in NAMES} | {word: word[::-1] for word in OTHERS}
LEXICON |= {f"{word}.": f"{translated}." for word, translated in LEXICON.items()} | {"?": "?"}
BACK = {translated: word for word, translated in LEXICON.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, of both directions, and a file of every kind of task."""
    path = tmp_path_factory.mktemp("translate")
    models.substituting_model(path / "en-de", LEXICON, source_lang="en", target_lang="de")
    models.substituting_model(path / "de-en", BACK, source_lang="de", target_lang="en")
    draw = random.Random(0)
    (path / "train.json").write_text(json.dumps(squad(draw, 40)), encoding="utf-8")
    (path / "en_x-ud-train.iob2").write_text(treebank(draw, 60), encoding="utf-8")
    (path / "train-en.tsv").write_text("Anna lives.\tBen lives.\t0\nAnna works.\tAnna works.\t1\n", encoding="utf-8")
    return path


def sentence(draw: random.Random) -> list[str]:
    return [draw.choice(NAMES), *draw.choices(OTHERS, k=draw.randint(2, 5)), draw.choice(NAMES)]


def squad(draw: random.Random, questions: int) -> dict[str, Any]:
    paragraphs = []
    for number in range(questions):
        words = [*sentence(draw), *sentence(draw), *sentence(draw)]
        context = " ".join(f"{word}." if word in NAMES and at else word for at, word in enumerate(words))
        at = draw.randrange(len(words))
        start = len(" ".join(context.split()[:at])) + bool(at)
        answers = [{"text": words[at], "answer_start": start}]
        paragraphs.append({"context": context, "qas": [{"id": f"q{number}", "question": "Anna ?", "answers": answers}]})
    return {"data": [{"paragraphs": paragraphs}]}


def treebank(draw: random.Random, sentences: int) -> str:
    lines = []
    for number in range(sentences):
        words = sentence(draw)
        lines += [f"# sent_id = s{number}", f"# text = {' '.join(words)}"]
        tags = ["O"] * len(words)
        if number:  # the first has no entity
            tags[0], tags[-1] = "B-PER", "B-LOC"
            if number % 2:
                tags[-2:] = ["B-LOC", "I-LOC"]
        lines += [f"{at}\t{word}\t{tag}\t-\t-" for at, (word, tag) in enumerate(zip(words, tags, strict=True), 1)]
        lines.append("")
    return "\n".join(lines) + "\n"


def substituted(text: str) -> str:
    return " ".join(LEXICON[word] for word in text.split())


def config(folder: Path, output: Path, task: str, file: str, **options: Any) -> TranslateConfig:
    settings = {"to": ("de",), "source_lang": "en", **options}
    return TranslateConfig(str(folder / "en-de"), (folder / file,), output, task, **settings)


# --- texts and labels -------------------------------------------------------------------------------------------------


def test_questions_contexts_and_answers_are_translated(folder: Path, tmp_path: Path) -> None:
    printed = run(config(folder, tmp_path / "out", "squad", "train.json"))
    records = read_records([folder / "train.json"], "squad", ["en"]).records
    rows = list(read_examples(tmp_path / "out", verify=True))
    assert [row.id for row in rows] == [record.id for record in records]
    for row, record in zip(rows, records, strict=True):
        assert row.source_texts == (record.query, record.context) and row.texts == tuple(
            map(substituted, row.source_texts)
        )
        assert (row.source_lang, row.target_lang, row.kind, row.task) == ("en", "de", "qa", "squad")
        if row.labels == "projected":
            before = len(record.context[: record.answers[0].start].split())
            answer = row.texts[1].split()[before].removesuffix(".")
            assert row.answers[0].of(row.texts[1]) == answer and 0 < row.score <= 1.0
            assert len(row.texts[1][: row.answers[0].start].split()) == before
    projected = sum(row.labels == "projected" for row in rows)
    assert projected >= 36, "the aligner learns from 120 sentences"
    counts = load(tmp_path / "out").counts
    assert counts == {"en-de": TranslationCounts(40, 40, {}, projected=projected, unknown=40 - projected)}
    assert f"projected {projected}, unknown {40 - projected}" in printed
    assert list(find_problems(tmp_path / "out")) == [] and not (tmp_path / ".out.new").exists()


def test_entities_are_projected_to_spans_of_their_own(folder: Path, tmp_path: Path) -> None:
    run(config(folder, tmp_path / "out", "universal_ner", "en_x-ud-train.iob2"))
    records = read_records([folder / "en_x-ud-train.iob2"], "universal_ner").records
    rows = list(read_examples(tmp_path / "out", verify=True))
    for row, record in zip(rows, records, strict=True):
        assert row.texts == (substituted(record.text),)
        assert [span.of(row.texts[0]) for span in row.tokens] == row.texts[0].split()
        assert (row.labels == "unknown" and row.tags == ()) or row.tags == record.tags
    assert rows[0].labels == "known" and set(rows[0].tags) == {"O"} and rows[0].score is None
    projected = [row for row in rows if row.labels == "projected"]
    assert len(projected) >= 55 and all(len(entities(row.tags)) == 2 and 0 < row.score <= 1 for row in projected)


def test_pairs_keep_their_label_in_every_language(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "en-de", tmp_path / "model")
    (tmp_path / "model/tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    run(
        replace(
            config(folder, tmp_path / "out", "paws_x", "train-en.tsv", to=("de", "es")), model=str(tmp_path / "model")
        )
    )
    rows = list(read_examples(tmp_path / "out", verify=True))
    assert [(row.target_lang, row.id, row.label, row.labels) for row in rows] == [
        (lang, f"train-en.tsv:{number + 1}", label, "known")
        for lang in ("de", "es")
        for number, label in enumerate("01")
    ]
    assert rows[0].texts == ("annax sevil.", "nebx sevil.")


@pytest.mark.parametrize("task, file", [("squad", "train.json"), ("universal_ner", "en_x-ud-train.iob2")])
def test_back_translation_swaps_the_languages_and_finds_the_labels_again(
    task: str, file: str, folder: Path, tmp_path: Path
) -> None:
    run(config(folder, tmp_path / "there", task, file))
    run(TranslateConfig(str(folder / "de-en"), (tmp_path / "there",), tmp_path / "back", back=True))
    there, back = (list(read_examples(tmp_path / name, verify=True)) for name in ("there", "back"))
    records = read_records([folder / file], task, ["en"]).records
    for first, second, record in zip(there, back, records, strict=True):
        assert (second.id, second.source_lang, second.target_lang) == (first.id, "de", "en")
        assert second.source_texts == first.texts and second.texts == first.source_texts
        if second.labels == "projected":
            assert second.answers == (record.answers if task == "squad" else ())
            assert task == "squad" or (second.tokens, second.tags) == (record.tokens, record.tags)
            assert second.score <= first.score
        assert first.labels != "unknown" or second.labels == "unknown"
    assert sum(row.labels != "unknown" for row in back) >= 0.8 * len(back)
    with pytest.raises(ConfigError, match="no record to translate: --from and --to leave none"):
        run(TranslateConfig(str(folder / "de-en"), (tmp_path / "there",), tmp_path / "x", back=True, source_lang="es"))


def test_records_that_cannot_be_translated_are_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = squad(random.Random(0), 4)
    first, second, third, _ = (paragraph["qas"][0] for paragraph in questions["data"][0]["paragraphs"])
    first["question"] = " "
    second["question"] = "big" * 200
    third["question"] = "Ben ?"
    (tmp_path / "train.json").write_text(json.dumps(questions))
    from training.inference.translator import Translator

    translate = Translator.translate
    monkeypatch.setattr(
        Translator,
        "translate",
        lambda self, texts, *rest: [
            None if text == "Ben ?" else found for text, found in zip(texts, translate(self, texts, *rest), strict=True)
        ],
    )
    monkeypatch.setattr(
        Translator, "count_tokens", lambda *_: lambda texts: [999 if "bigbig" in text else 9 for text in texts]
    )
    printed = run(replace(config(tmp_path, tmp_path / "out", "squad", "train.json"), model=str(folder / "en-de")))
    refused = {"empty_text": 1, "too_long": 1, "unfinished": 1}
    assert load(tmp_path / "out").totals.record_rejects == refused and "--rejects" in printed
    rejects = [row for batch in read_rejects(tmp_path / "out") for row in batch.to_pylist()]
    assert [(row["reason"], row["record_id"], row["pair"], row["line"]) for row in rejects] == [
        ("empty_text", "q0", "en-de", 1),
        ("too_long", "q1", "en-de", 2),
        ("unfinished", "q2", "en-de", 3),
    ]
    assert list(find_problems(tmp_path / "out")) == []


def test_records_with_the_same_id_stay_apart(folder: Path, tmp_path: Path) -> None:
    questions = squad(random.Random(0), 2)
    for paragraph in questions["data"][0]["paragraphs"]:
        paragraph["qas"][0]["id"] = "same"
    (tmp_path / "train.json").write_text(json.dumps(questions))
    run(replace(config(tmp_path, tmp_path / "out", "squad", "train.json"), model=str(folder / "en-de")))
    assert [row.id for row in read_examples(tmp_path / "out")] == ["same", "same#2"]
    assert list(find_problems(tmp_path / "out")) == []


def test_sentences_are_joined_as_their_language_writes_them() -> None:
    from schemas.languages import LanguagePair
    from training.translate import Memory, TranslatedText

    spans = [CharSpan(0, 2), CharSpan(3, 5), CharSpan(6, 8)]
    for lang, expected in (("de", "X. Y.\nZ."), ("zh", "X.Y.\nZ.")):
        pair = LanguagePair("en", lang)
        memory = Memory({(pair, "A. B.\nC."): spans}, {pair: {"A.": "X.", "B.": "Y.", "C.": "Z."}})
        found = memory.text_or_problem(pair, "A. B.\nC.")
        assert isinstance(found, TranslatedText) and found.text == expected
        assert [span.of(found.text) for span in found.target] == ["X.", "Y.", "Z."]


# --- outputs ----------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.inference.translator import Translator

    monkeypatch.setattr(translation, "SENTENCES_PER_CHUNK", 30)
    run(config(folder, tmp_path / "whole", "squad", "train.json"))
    settings = config(folder, tmp_path / "out", "squad", "train.json")
    translate, translated = Translator.translate, []

    def stop(self: Translator, *arguments: Any) -> Any:
        if len(translated) == 2:
            raise KeyboardInterrupt
        translated.append(len(arguments[0]))
        return translate(self, *arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Translator, "translate", stop)
        run(settings)
    assert not (tmp_path / "out").exists() and len(list((tmp_path / ".out.new/work").glob("en-de.*.json"))) == 2
    with pytest.raises(ConfigError, match=r"other settings \(config.beams: 1 before, 2 now\)"):
        run(replace(settings, beams=2))
    counted: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(
            Translator, "translate", lambda self, *rest: counted.append(len(rest[0])) or translate(self, *rest)
        )
        run(settings)
    assert sum(counted) + 60 == sum(len(chunk) for chunk in chunks(folder))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


def chunks(folder: Path) -> list[list[str]]:
    from training.inference.sentences import sentences

    records = read_records([folder / "train.json"], "squad", ["en"]).records
    texts = dict.fromkeys(text for record in records for text in (record.query, record.context))
    return [list(dict.fromkeys(span.of(text) for text in texts for span in sentences(text)))]


@pytest.mark.slow
def test_killed_at_every_fifth_file_operation_it_ends_as_if_nothing_had_been(folder: Path, tmp_path: Path) -> None:
    run(config(folder, tmp_path / "whole", "paws_x", "train-en.tsv"))
    expected = contents(tmp_path / "whole")
    for number in range(1, 200, 5):
        output = tmp_path / str(number) / "out"
        output.parent.mkdir()
        settings = config(folder, output, "paws_x", "train-en.tsv")
        code, _ = run_in_child(lambda settings=settings: run(settings), output, number)
        if code == 0:
            break
        assert code == KILLED and (
            not (output / "manifest.json").exists() or contents_without_marks(output) == expected
        )
        code, _ = run_in_child(lambda settings=settings: run(settings), output)
        assert code == 0 and contents(output) == expected
        assert [path.name for path in output.parent.iterdir()] == ["out"]
    assert number > 20


def contents_without_marks(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if not name.startswith(".polyspan")}


def test_a_finished_command_has_nothing_to_do_and_another_needs_overwrite(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(folder, tmp_path / "out", "paws_x", "train-en.tsv")
    run(settings)
    before = contents(tmp_path / "out")
    with monkeypatch.context() as patched:
        patched.setattr(translation, "translate", lambda *_: pytest.fail("the command was run again"))
        assert "complete, nothing to do" in run(settings)
    with pytest.raises(ConfigError, match=r"holds a dataset already[.] Replace it with --overwrite"):
        run(replace(settings, beams=2))
    assert contents(tmp_path / "out") == before
    run(replace(settings, beams=2, overwrite=True))
    assert load(tmp_path / "out").config["beams"] == 2 and not (tmp_path / "out" / NEW).exists()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"also other files: notes[.]txt"):
        run(settings)


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, code, said",
    [
        (["--to", "es"], 2, "translates into de, but --to es"),
        (["--to", "en"], 2, "--to en: train-en.tsv is in this language already. Leave the file out"),
        (["--to", "de", "de"], 2, "--to de: given twice"),
        ([], 2, "no language to translate into: name it with --to LANG"),
        (["--to", "de", "--codes", "de"], 2, "--codes de: expected LANG=CODE, such as de=deu_Latn"),
        (["--to", "de", "--beams", "0"], 2, "--beams: expected 1 or more, found 0"),
        (["--to", "de", "--aligner", "none"], 2, "none: no such file"),
        (["--back"], 2, "--back takes no --task"),
    ],
)
def test_options_that_cannot_work_are_refused(
    options: list[str], code: int, said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("translate", str(folder / "en-de"), "--task", "paws_x", "--input", str(folder / "train-en.tsv")),
                *("--output", str(tmp_path / "out"), *options),
            ]
        )
    assert ended.value.code == code and said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_translate_is_refused(
    folder: Path, xlmr_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--task", "paws_x", "--input", str(folder / "train-en.tsv"), "--to", "de", "--output", str(tmp_path / "x")]
    with pytest.raises(SystemExit) as ended:
        main(["translate", str(xlmr_folder), *files])
    assert ended.value.code == 1 and "model_type 'xlm-roberta', which does not translate" in capsys.readouterr().err


def test_other_folders_are_not_translated_back(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Path(__file__).resolve().parents[1] / "golden/pair-1"
    for path, said in (
        (golden, "has schema pair/1, but --back translates"),
        (folder / "train.json", "is a file. With"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["translate", str(folder / "de-en"), "--back", "--input", str(path), "--output", str(tmp_path / "x")])
        assert ended.value.code == 2 and said in capsys.readouterr().err
