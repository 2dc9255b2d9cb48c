"""Labels are carried over by word alignment; the aligner works where Beam, spaCy and sacremoses are missing."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.aligner import AlignerConfig, train
from pipelines.aligner.links import Link
from pipelines.aligner.text import WHITE_SPACE, TrainingText
from schemas.errors import ConfigError
from schemas.languages import LanguagePair
from schemas.mrc import MrcExample, TaggingExample
from schemas.spans import CharSpan
from training.inference.projection import (
    UNKNOWN,
    Labels,
    WordsOfText,
    load_prior,
    projected_answers,
    projected_tags,
    train_aligner,
)

ROOT = Path(__file__).resolve().parents[3]
SOURCE, TARGET = "Anna met Ben . She left .", "Ben traf Anna . Sie ging ."


def spans(text: str) -> list[CharSpan]:
    found, start = [], 0
    for word in text.split():
        found.append(CharSpan(start := text.index(word, start), start + len(word)))
        start += len(word)
    return found


def split(text: str) -> list[list[CharSpan]]:
    return [spans(text)[:4], spans(text)[4:]]


WORDS = WordsOfText(split(SOURCE), split(TARGET))
LINKS = WORDS.links(
    [[Link(0, 2, 0.9), Link(1, 1, 0.8), Link(2, 0, 0.7), Link(3, 3, 1.0)], [Link(0, 0, 0.6), Link(1, 1, 0.5)]]
)


def question(*answers: str) -> MrcExample:
    found = tuple(CharSpan(SOURCE.index(answer), SOURCE.index(answer) + len(answer)) for answer in answers)
    return MrcExample("q", "en", "?", SOURCE, found, answers, bool(answers), "squad", None)


def test_links_of_a_sentence_count_from_the_beginning_of_the_text() -> None:
    assert [link[:2] for link in LINKS] == [(0, 2), (1, 1), (2, 0), (3, 3), (4, 4), (5, 5)]


@pytest.mark.parametrize(
    "answers, expected",
    [
        (("Ben",), Labels("projected", 0.7, answers=(CharSpan(0, 3),))),
        (("She left",), Labels("projected", 0.55, answers=(CharSpan(16, 24),))),
        (("Anna met",), Labels("projected", pytest.approx(0.85), answers=(CharSpan(4, 13),))),
        ((". She",), Labels("projected", 0.8, answers=(CharSpan(14, 19),))),  # in two sentences
        (("Ann", "Ben"), Labels("projected", 0.7, answers=(CharSpan(0, 3),))),  # "Ann" ends inside a word
        (("Ann",), UNKNOWN),
        (("Anna", "Ben"), Labels("projected", 0.7, answers=(CharSpan(9, 13), CharSpan(0, 3)))),
    ],
)
def test_an_answer_covers_its_first_to_its_last_linked_word(answers: tuple[str, ...], expected: Labels) -> None:
    found = projected_answers(question(*answers), WORDS, LINKS)
    assert found._replace(score=None) == expected._replace(score=None)
    assert found.score == (None if expected.score is None else pytest.approx(expected.score))


def test_an_answer_around_a_word_that_is_linked_elsewhere_is_unknown() -> None:
    links = [Link(0, 0, 0.9), Link(0, 2, 0.9), Link(1, 1, 0.9)]
    assert projected_answers(question("Anna"), WORDS, links) == UNKNOWN


def sentence(*tags: str) -> TaggingExample:
    return TaggingExample("s", "en", SOURCE, tuple(spans(SOURCE)), tags, "conll")


def test_each_entity_has_a_span_of_its_own_and_the_score_is_the_lowest() -> None:
    found = projected_tags(sentence("B-PER", "O", "B-PER", "O", "B-X", "I-X", "O"), WORDS, LINKS)
    assert found.tags == ("B-PER", "O", "B-PER", "O", "B-X", "I-X", "O")
    assert found.labels == "projected" and found.score == pytest.approx(0.55)
    assert projected_tags(sentence("O", "O", "O", "O", "O", "O", "B-X"), WORDS, LINKS) == UNKNOWN  # no link


def test_an_aligner_learns_from_the_sentences_and_any_order_gives_the_same_links() -> None:
    draw = random.Random(0)
    lexicon = {word: f"{word[::-1]}x" for word in "anna ben clara lives works sleeps in near with".split()}
    sentences = [tuple(draw.sample(list(lexicon), draw.randint(2, 4))) for _ in range(200)]
    pairs = [(words, tuple(lexicon[word] for word in reversed(words))) for words in sentences]
    links = train_aligner(pairs).links(pairs)
    right = [
        {link[:2] for link in each} == {(at, len(words) - 1 - at) for at in range(len(words))}
        for words, each in zip(sentences, links, strict=True)
    ]
    assert sum(right) >= 190
    assert train_aligner(pairs[::-1]).links(pairs) == links


def test_a_prior_of_another_language_pair_is_refused(tmp_path: Path) -> None:

    model = train([(["a"], ["b"])], AlignerConfig())
    text = TrainingText(LanguagePair("en", "de"), (WHITE_SPACE, WHITE_SPACE))
    replace(model, text=text).save(str(tmp_path / "en-de.model"))
    load_prior(str(tmp_path / "{pair}.model"), LanguagePair("en", "de"))
    with pytest.raises(ConfigError, match=r"was trained on en-de, but en-es is translated"):
        load_prior(str(tmp_path / "en-de.model"), LanguagePair("en", "es"))


def test_the_aligner_imports_nothing_else_of_the_pipelines() -> None:
    code = """
import sys
for name in ("apache_beam", "spacy", "sacremoses", "zstandard", "sudachipy", "rjieba"):
    sys.modules[name] = None
import pipelines.aligner.projection, pipelines.aligner.reference, pipelines.aligner.symmetrize
others = [name for name in sys.modules if name.startswith("pipelines.") and not name.startswith("pipelines.aligner")]
assert not others, others
from pipelines.aligner import AlignerConfig, train
pairs = [(["a", "b"], ["x", "y"]), (["b"], ["y"]), (["a"], ["x"])] * 5
assert [link[:2] for link in train(pairs, AlignerConfig()).align(["b", "a"], ["y", "x"])] == [(0, 0), (1, 1)]
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
