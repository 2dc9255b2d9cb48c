from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from schemas.clism import ARROW_SCHEMA, QUE_TOKEN, ClismExample, PairCounts, problems
from schemas.inspection.cli import main
from schemas.inspection.clism_view import render_example
from schemas.inspection.show import show_examples
from schemas.inspection.statistics import statistics
from schemas.verification import find_problems

FSI, PDI = "\u2068", "\u2069"


def shown(folder: Path, count: int, pair: str | None = None, **more) -> str:
    show_examples(folder, count, pair, stream := io.StringIO(), **more)
    return stream.getvalue()


def ids_in(text: str) -> list[str]:
    return re.findall(r"[0-9a-f]{20}", text)


# --- show ------------------------------------------------------------------------------------------------------------


def test_an_example_is_shown_with_its_questions_numbered_and_their_answers_marked(golden):
    assert render_example(golden.examples()[1]) == (
        "en-vi  golden:2  00000000000000000002\n"
        "  source  😀 In [QUE 1] 🇻🇳, [QUE 2]!\n"
        "  target  😀 Ở ⟦2 Hà Nội⟧ 🇻🇳, ⟦1 năm 1945⟧!\n"
        "  1  DATE  0.50  1945 → năm 1945\n"
        "  2  GPE   0.75  Hanoi → Hà Nội\n"
    )


def test_marks_in_right_to_left_text_are_isolated(golden):
    lines = render_example(golden.examples()[2]).splitlines()
    assert lines[2] == f"  target  {FSI}{FSI}⟦1 آنا⟧{PDI} تعيش في {FSI}⟦2 هانوي⟧{PDI}.{PDI}"
    assert lines[4] == f"  2  GPE     0.75  {FSI}Hanoi{PDI} → {FSI}هانوي{PDI}"
    assert all(line.count(FSI) == line.count(PDI) for line in lines)


def test_a_question_and_its_answer_have_one_colour_on_a_terminal(golden):
    coloured = render_example(golden.examples()[0], color=True)
    assert [line.count("\x1b[1;32m") for line in coloured.splitlines()] == [0, 1, 1, 1, 0]
    assert [line.count("\x1b[1;33m") for line in coloured.splitlines()] == [0, 1, 1, 0, 1]
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_example(golden.examples()[0])


@pytest.mark.parametrize(
    "option, terminal, no_color, coloured",
    [
        ("auto", True, "", True),
        ("auto", False, "", False),
        ("auto", True, "1", False),
        ("always", False, "1", True),
        ("never", True, "", False),
    ],
)
def test_colours_are_for_terminals(dataset, capsys, monkeypatch, option, terminal, no_color, coloured):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert main(["show", str(dataset), "--color", option]) == 0
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_text_cannot_steer_the_terminal(golden):
    hostile = replace(golden.examples()[0], corpus="a\x1b[2Jb", target_text="Anna \x1b]0;\x07\u202e\x9b ở")
    text = render_example(hostile)
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\x9b"}
    assert "␛]0;␇<U+202E><U+009B>" in text


def test_which_examples_are_shown_depends_on_seed_and_id_alone(golden, tmp_path):
    rows = [replace(golden.examples()[0], id=f"{n:020x}", line=n) for n in range(200)]
    golden.write(tmp_path / "one", rows, shards=1)
    golden.write(tmp_path / "many", rows[::-1], shards=7)
    ten = ids_in(shown(tmp_path / "one", 10))
    assert len(set(ten)) == 10
    assert ten == ids_in(shown(tmp_path / "many", 10))
    assert ten[:3] == ids_in(shown(tmp_path / "one", 3))
    assert ten != ids_in(shown(tmp_path / "one", 10, seed=1))
    lines = [int(each, 16) for each in ids_in(shown(tmp_path / "one", 40))]
    assert all(any(start <= line < start + 50 for line in lines) for start in range(0, 200, 50))


def test_examples_of_one_pair_and_of_one_id(dataset):
    assert sorted(ids_in(shown(dataset, 5, "en-ar"))) == [f"{n:020x}" for n in (3, 4)]
    assert ids_in(shown(dataset, 5, example_id=f"{6:020x}")) == [f"{6:020x}"]


def test_rejects_are_shown_by_reason_pair_and_id(dataset, capsys):
    assert main(["show", str(dataset), "--rejects", "no_link", "--pair", "en-th"]) == 0
    assert capsys.readouterr().out == (
        "en-th  golden:102  00000000000000000066\n"
        "  mention: no_link. The aligner links no word of the mention to the translation.\n"
        "  Hello. ||| …\n"
    )
    assert main(["show", str(dataset), "--rejects", "--count", "100"]) == 0
    assert len(ids_in(capsys.readouterr().out)) == 10
    assert main(["show", str(dataset), "--rejects", "--id", f"{103:020x}"]) == 0
    assert ids_in(capsys.readouterr().out) == [f"{103:020x}"] * 2


def test_a_dataset_without_examples_says_where_to_look(golden, tmp_path):
    manifest = golden.write(tmp_path, golden.examples()[:1])
    entries = tuple(golden.write_file(tmp_path, shard.file, []) for shard in manifest.shards)
    none = replace(
        manifest, shards=entries, counts={"en-vi": PairCounts(1, 0, {"no_mention": 1}, 1, 0, {"no_link": 1})}
    )
    (tmp_path / "manifest.json").write_text(none.to_json())
    assert shown(tmp_path, 5) == "No examples. What was left out, and why: --rejects\n"
    assert list(find_problems(tmp_path)) == []
    assert statistics(tmp_path)["pairs"]["en-vi"]["answer_words"] is None


# --- stats -----------------------------------------------------------------------------------------------------------


def test_statistics_agree_with_counting_by_hand(golden, tmp_path):
    texts = [(golden.examples()[n % 7], n) for n in range(5000)]  # more than one batch
    rows = [replace(row, id=f"{n:020x}", target_text=row.target_text + " x" * (n % 11)) for row, n in texts]
    golden.write(tmp_path, rows)
    numbers = statistics(tmp_path)
    assert list(numbers["pairs"]) == ["en-ar", "en-hi", "en-th", "en-vi", "en-zh"]
    for pair, found in numbers["pairs"].items():
        examples = [row for row in rows if f"{row.source_lang}-{row.target_lang}" == pair]
        asked = [(row.target_text, q) for row in examples for q in row.questions]
        answers = [text[q.answer_start_char : q.answer_end_char] for text, q in asked]
        lengths = sorted(map(len, answers))
        middles = [(q.answer_start_char + q.answer_end_char) / 2 / len(text) for text, q in asked]
        assert (found["pairs_read"], found["examples"], found["questions"]) == (
            len(examples) + 1,
            len(examples),
            len(asked),
        )
        assert found["pair_rejects"] == {"no_mention": 1}
        assert found["corpora"] == {"golden": len(examples)}
        assert found["entity_labels"] == Counter(q.entity_label for _, q in asked)
        assert found["questions_per_example"] == Counter(str(len(row.questions)) for row in examples)
        assert found["answer_chars"]["min"] == lengths[0]
        assert found["answer_chars"]["50%"] == lengths[(len(lengths) - 1) // 2]
        assert found["answer_chars"]["max"] == lengths[-1]
        assert found["answer_chars"]["mean"] == pytest.approx(sum(lengths) / len(lengths), abs=1e-3)
        assert found["answer_position_deciles"] == [sum(int(m * 10) == d for m in middles) for d in range(10)]
        scores = [q.alignment_score for _, q in asked]
        assert (found["alignment_score"]["min"], found["alignment_score"]["max"]) == (min(scores), max(scores))
        if pair in ("en-th", "en-zh"):
            assert found["answer_words"] is None
        else:
            words = [len(answer.split()) for answer in answers]
            assert found["answer_words"]["mean"] == pytest.approx(sum(words) / len(words), abs=1e-3)


def test_statistics_of_a_pair_that_gave_nothing(golden, tmp_path):
    manifest = golden.write(tmp_path)
    counts = {**manifest.counts, "en-sw": PairCounts(3, 0, {"no_mention": 3})}
    (tmp_path / "manifest.json").write_text(replace(manifest, counts=counts).to_json())
    found = statistics(tmp_path, "en-sw")["pairs"]["en-sw"]
    assert (found["examples"], found["kept"], found["answer_chars"]) == (0, 0.0, None)
    assert main(["stats", str(tmp_path)]) == 0


def test_stats_are_printed_as_text_and_as_json(dataset, capsys):
    assert main(["stats", str(dataset)]) == 0
    text = capsys.readouterr().out
    assert "en-vi  3 pairs read → 2 examples (66.7% kept)" in text
    assert re.search(r"no_mention +1 +33\.3%  The tagger found no entity in the source sentence\.\n", text)
    assert "GPE: 2 (50.0%) · DATE: 1 (25.0%) · PERSON: 1 (25.0%)" in text
    assert "start│ ▄▄    █  │end  0.0% 25.0% 25.0%" in text
    assert main(["stats", str(dataset), "--json", "--pair", "en-vi"]) == 0
    assert json.loads(capsys.readouterr().out) == statistics(dataset, "en-vi")


# --- verify ----------------------------------------------------------------------------------------------------------


def test_a_whole_dataset_passes(dataset, capsys):
    assert list(find_problems(dataset)) == []
    assert main(["verify", str(dataset)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("clism-en-vi: ok, 7 examples with 15 questions in 2 shards")
    assert out.count("\n") == 1


def problems_with(golden, folder: Path, *changes: tuple[int, ClismExample]) -> list[str]:
    """What `verify` says of a dataset that was written, checksums and all, with these rows in place of the golden."""
    rows = golden.examples()
    for at, row in changes:
        rows[at] = row
    golden.write(folder, rows)
    return list(find_problems(folder))


def with_question(example: ClismExample, **changes) -> ClismExample:
    return replace(example, questions=(replace(example.questions[0], **changes), *example.questions[1:]))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"answer_end_char": 400}, "question 0: answer span lies outside target_text"),
        ({"answer_start_char": -1}, "question 0: answer span lies outside target_text"),
        ({"answer_end_char": 0}, "question 0: answer span lies outside target_text"),
        ({"answer_end_char": 13}, "answers overlap"),
        ({"que_start_char": 1}, "question 0: its [QUE] is not at que_start_char 1"),
        ({"source_end_char": 5}, "masked_source_text is not source_text with its mentions replaced"),
        ({"alignment_score": 1.5}, "question 0: alignment_score 1.5 is not in 0..1"),
        ({"alignment_score": float("nan")}, "question 0: alignment_score nan is not in 0..1"),
    ],
)
def test_a_row_that_breaks_the_contract_is_found(golden, tmp_path, changes, said):
    found = problems_with(golden, tmp_path, (0, with_question(golden.examples()[0], **changes)))
    assert f"data/part-00000-of-00002.arrow row 0 (id {1:020x}): {said}" in found


def test_a_row_is_named_by_its_place_in_its_shard(golden, tmp_path):
    rows = [replace(golden.examples()[0], id=f"{n:020x}") for n in range(6000)]
    rows[5000] = replace(rows[5000], questions=())
    rows[5001] = replace(rows[5001], target_text="x")
    golden.write(tmp_path, rows, shards=1)
    found = [problem for problem in find_problems(tmp_path) if " row " in problem]
    assert [re.search(r"row (\d+) \(id (\w+)\)", problem).groups() for problem in found] == [
        ("5000", f"{5000:020x}"),
        ("5000", f"{5000:020x}"),  # has no question; and its masked text still holds two
        ("5001", f"{5001:020x}"),
        ("5001", f"{5001:020x}"),
    ]


def test_a_que_of_the_text_itself_is_not_taken_for_a_question(golden):
    written = golden.parse(1, "en", "vi", "X met [Anna].", "X gặp [0:Anna].")
    text = written.source_text.replace("X", QUE_TOKEN)
    shift = len(QUE_TOKEN) - 1
    (q,) = written.questions
    right = replace(
        q,
        que_start_char=q.que_start_char + shift,
        source_start_char=q.source_start_char + shift,
        source_end_char=q.source_end_char + shift,
    )
    example = replace(written, source_text=text, masked_source_text=f"{QUE_TOKEN} met {QUE_TOKEN}.", questions=(right,))
    assert problems(example) == []
    assert problems(replace(example, questions=(replace(right, que_start_char=0),)))


def test_an_id_that_stands_twice_is_found(golden, tmp_path):
    twice = replace(golden.examples()[6], id=golden.examples()[0].id)
    assert problems_with(golden, tmp_path, (6, twice)) == [f"id {1:020x} occurs in 2 rows: look at them with show --id"]


@pytest.mark.parametrize(
    "change, said",
    [
        (PairCounts(3, 2, {}, 5, 4, {"no_link": 1}), "manifest.json: en-vi: 3 pairs read, but 2 examples + 0 rejects"),
        (PairCounts(3, 2, {"too_long": 1}, 5, 4, {"no_link": 1}), "1 pair rejects no_mention are kept, but the manif"),
        (PairCounts(3, 2, {"no_mention": 1}, 6, 5, {"no_link": 1}), "counts 5 questions, but the shards hold 4"),
        (PairCounts(4, 3, {"no_mention": 1}, 5, 4, {"no_link": 1}), "counts 3 examples, but the shards hold 2"),
    ],
)
def test_counts_that_are_not_those_of_the_rows_are_found(golden, tmp_path, change, said):
    manifest = golden.write(tmp_path)
    (tmp_path / "manifest.json").write_text(replace(manifest, counts={**manifest.counts, "en-vi": change}).to_json())
    assert any(said in problem for problem in find_problems(tmp_path))


def test_a_pair_without_counts_is_found(golden, tmp_path):
    manifest = golden.write(tmp_path)
    renamed = {pair.replace("en-hi", "en-ur"): counts for pair, counts in manifest.counts.items()}
    (tmp_path / "manifest.json").write_text(replace(manifest, counts=renamed).to_json())
    assert any("en-hi has no counts in the manifest" in problem for problem in find_problems(tmp_path))


@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_every_damaged_file_is_listed_and_the_exit_code_is_1(dataset, capsys, quick):
    first, second = sorted((dataset / "data").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    (dataset / "data/part-00002-of-00002.arrow").write_bytes(b"")
    assert main(["verify", str(dataset), *quick]) == 1
    out = capsys.readouterr().out
    assert re.search("part-00000-of-00002.*truncated", out)
    assert re.search("part-00001-of-00002.*missing", out)
    assert "data/part-00002-of-00002.arrow: is in the folder, but not in the manifest" in out
    assert out.endswith("clism-en-vi: 3 problems\n")


def test_an_altered_byte_is_found_without_looking_at_rows(dataset, capsys):
    path = dataset / "rejects/part-00000-of-00001.arrow"
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Hullo"))
    assert main(["verify", str(dataset), "--quick"]) == 1
    assert "SHA-256" in capsys.readouterr().out


def test_quick_does_not_look_at_rows(golden, tmp_path):
    wrong = replace(golden.examples()[0], target_text="x")
    assert problems_with(golden, tmp_path, (0, wrong))
    assert list(find_problems(tmp_path, quick=True)) == []


def test_verify_stops_at_its_limit(golden, tmp_path, capsys):
    golden.write(
        tmp_path, [replace(row, questions=(), masked_source_text=row.source_text) for row in golden.examples()]
    )
    assert main(["verify", str(tmp_path), "--limit", "3"]) == 1
    assert capsys.readouterr().out.endswith("3 problems or more: stopped after 3, --limit 0 lists all\n")
    assert main(["verify", str(tmp_path), "--limit", "0"]) == 1
    assert capsys.readouterr().out.endswith("7 problems\n")


def test_a_null_is_a_problem_and_not_a_crash(golden, tmp_path):
    manifest = golden.write(tmp_path, shards=1)
    rows = [{**row.to_row(), "target_text": None} for row in golden.examples()]
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, ARROW_SCHEMA) as writer:  # as another program might
        writer.write_table(pa.Table.from_pylist(rows, schema=ARROW_SCHEMA))
    content = stream.getvalue()
    (tmp_path / manifest.shards[0].file).write_bytes(content)
    entry = manifest.shards[0]._replace(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    (tmp_path / "manifest.json").write_text(replace(manifest, shards=(entry,)).to_json())
    found = list(find_problems(tmp_path))
    assert "data/part-00000-of-00001.arrow rows 0 to 6: field target_text holds 7 nulls" in found[0]


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["shwo", "{}"], "there is no command 'shwo'. Did you mean show?"),
        (["show", "{}", "--cuont=3"], "there is no argument '--cuont=3'. Did you mean --count?"),
        (["verify", "{}", "--quik"], "Did you mean --quick?"),
        (["show", "{}", "--count", "-3"], "expected a whole number from 0, found '-3'"),
        (["show"], "DATASET"),
        ([], "COMMAND"),
    ],
)
def test_wrong_arguments_end_with_a_suggestion_and_exit_code_2(dataset, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        main([argument.format(dataset) for argument in arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["show", "{}", "--pair", "en-vj"], "no pair 'en-vj'. Did you mean en-vi?"),
        (["show", "{}", "--rejects", "no_lnk"], "no reason 'no_lnk'. Did you mean no_link?"),
        (["show", "{}", "--id", "ffff"], "no example has id ffff"),
        (["stats", "{}", "--pair", "sw"], "It has: en-ar, en-hi, en-th, en-vi, en-zh"),
        (["verify", "{}/data"], "not a dataset"),
        (["stats", "{}/nowhere"], "no such folder"),
    ],
)
def test_what_is_not_there_ends_with_a_message_and_exit_code_2(dataset, capsys, arguments, said):
    assert main([argument.format(dataset) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert output.out == ""


@pytest.mark.parametrize("command", ["show", "stats", "verify"])
def test_a_dataset_that_cannot_be_read_ends_with_exit_code_1(dataset, capsys, command):
    (Path(dataset) / "manifest.json").write_text("{")
    assert main([command, str(dataset)]) == 1
    assert "manifest.json is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["show"], ["stats"], ["verify"]])
def test_help_shows_an_example(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert "  polyspan-inspect " in capsys.readouterr().out.partition("example")[2]


def test_a_reader_who_has_seen_enough_ends_it_quietly(golden, tmp_path):
    long = replace(golden.examples()[0], target_text="Anna sống ở Hà Nội." + "x" * 100_000)
    golden.write(tmp_path, [replace(long, id=f"{n:020x}") for n in range(100)])  # more than a pipe takes at once
    command = [sys.executable, "-m", "schemas.inspection.cli", "show", str(tmp_path), "--count", "100"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
