from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import InputError
from schemas.mrc import PairExample, problems
from training.tasks import paws_x, xnli


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode())
    return path


def test_paws_x_reads_the_authors_layout(tmp_path: Path) -> None:
    content = 'id\tsentence1\tsentence2\tlabel\n3\tEr sagte "ja".\t"Ja"\t1\n7\tNS\tNein\t0\n'
    examples, flags, _ = paws_x.read(written(tmp_path, "x-final/de/test_2k.tsv", content))
    assert examples == [
        PairExample("3", "de", 'Er sagte "ja".', '"Ja"', "1", "paws_x"),  # no marks are taken off: it is no CSV
        PairExample("7", "de", "NS", "Nein", "0", "paws_x"),
    ]
    assert flags == {"untranslated": ["7"]}


def test_paws_x_reads_xtremes_layout_which_is_csv(tmp_path: Path) -> None:
    content = '"Er sagte ""ja""."\t"""Ja"""\t1\r\nJa.\tNein.\t0\r\n'
    examples, flags, _ = paws_x.read(written(tmp_path, "dev-de.tsv", content))
    assert examples == [
        PairExample("dev-de.tsv:1", "de", 'Er sagte "ja".', '"Ja"', "1", "paws_x"),
        PairExample("dev-de.tsv:2", "de", "Ja.", "Nein.", "0", "paws_x"),
    ]
    assert flags == {}


def test_quotation_marks_stay_where_the_file_was_not_written_as_csv(tmp_path: Path) -> None:
    content = 'Er sagte "ja".\t"Ja"\t1\n"Nein"\tNein\t0\n'
    examples, *_ = paws_x.read(written(tmp_path, "dev-de.tsv", content))
    assert [(example.sentence1, example.sentence2) for example in examples] == [
        ('Er sagte "ja".', '"Ja"'),
        ('"Nein"', "Nein"),
    ]


def test_xtremes_test_files_have_no_labels(tmp_path: Path) -> None:
    (example,), flags, _ = paws_x.read(written(tmp_path, "test-de.tsv", "Ja.\tNein.\r\n"))
    assert example.label is None and flags == {"unlabelled": ["test-de.tsv:1"]}


XNLI = (
    "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
    "sentence2\tpromptID\tpairID\tgenre\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tsentence1_tokenized\t"
    "sentence2_tokenized\tmatch\n"
)


def test_xnli_reads_the_authors_layout_with_all_languages_in_one_file(tmp_path: Path) -> None:
    rows = "".join(
        f"{lang}\t{label}\t\t\t\t\tA\tB\t1\t{pair}\tfiction\t{label}\tx\tx\tx\tx\tA\tB\tTrue\n"
        for lang, label, pair in (("ar", "neutral", 2), ("bg", "contradiction", 2))
    )
    examples, flags, _ = xnli.read(written(tmp_path, "xnli.test.tsv", XNLI + rows))
    assert examples == [
        PairExample("2", "ar", "A", "B", "neutral", "xnli"),
        PairExample("2", "bg", "A", "B", "contradiction", "xnli"),
    ]
    assert flags == {}


@pytest.mark.parametrize(
    "name, content",
    [
        ("multinli.train.sw.tsv", "premise\thypo\tlabel\nA\tB\tcontradictory\n"),
        ("train-sw.tsv", "A\tB\tcontradiction\r\n"),
    ],
)
def test_xnli_reads_translated_training_sets(name: str, content: str, tmp_path: Path) -> None:
    (example,), *_ = xnli.read(written(tmp_path, name, content))
    assert (example.lang, example.sentence1, example.sentence2, example.label) == ("sw", "A", "B", "contradiction")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("dev-de.tsv", "a\tb\t1\na\tb\t2\n", r"dev-de\.tsv:2: expected a label of 0, 1; found '2'"),
        ("dev-de.tsv", "a\tb\t1\n\nb\n", r"dev-de\.tsv:3: expected 2 to 3 columns separated by tabs, found 1"),
        ("dev-de.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta\tb\n", r"dev-de\.tsv:2: expected 4 columns .* found 3"),
        ("mine.tsv", "a\tb\t1\n", r"mine\.tsv: its name does not say its language"),
    ],
)
def test_malformed_files_are_refused_with_file_and_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        paws_x.read(written(tmp_path, name, content))


@pytest.mark.real_data
def test_every_real_file_reads_whole(shared_data: Path) -> None:
    untranslated = 0
    paths = sorted((shared_data / "pairs" / "pawsx").glob("*.tsv"))
    for path in paths:
        examples, flags, _ = paws_x.read(path)
        assert len(examples) == 2_000 and set(flags) <= {"untranslated"}
        assert [problem for example in examples for problem in problems(example)] == []
        text = "".join(example.sentence1 + example.sentence2 for example in examples)
        assert "\r" not in text and '""' not in text  # the marks that CSV doubles are single again
        assert f"{path.stem.split('-')[1]}" == examples[0].lang
        untranslated += len(flags.get("untranslated", ()))
    assert (len(paths), untranslated) == (14, 339)
