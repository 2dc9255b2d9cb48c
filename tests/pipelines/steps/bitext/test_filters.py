from __future__ import annotations

import tracemalloc

import pytest

from pipelines.steps.bitext.filters import FilterConfig, SeenTexts, filter_pair, length_reject, text_digest, text_reject
from pipelines.steps.common.sentence_pairs import SentencePair
from schemas.languages import LanguagePair
from schemas.spans import CharSpan


def pair(source: str, target: str, line: int = 1) -> SentencePair:
    return SentencePair(str(line), LanguagePair("en", "vi"), "c", line, source, target)


@pytest.mark.parametrize(
    "source, target, reason",
    [
        ("Hello", "Xin chào", None),
        ("", "Xin chào", "empty_side"),
        ("Hello", " \u3000", "empty_side"),
        ("Hello ", " Hello", "identical_sides"),
        ("Hello", "hello", None),
    ],
)
def test_texts_that_are_refused(source, target, reason):
    assert text_reject(pair(source, target), FilterConfig()) == reason


def test_identical_sides_may_be_kept():
    assert text_reject(pair("NATO", "NATO"), FilterConfig(drop_identical=False)) is None


@pytest.mark.parametrize(
    "source_words, target_words, reason",
    [(128, 128, None), (129, 128, "too_long"), (5, 1, None), (6, 1, "length_ratio"), (1, 6, "length_ratio")],
)
def test_lengths_that_are_refused(source_words, target_words, reason):
    tokens = [CharSpan(i, i + 1) for i in range(129)]
    assert length_reject(tokens[:source_words], tokens[:target_words], FilterConfig()) == reason


def test_no_ratio_is_refused_when_it_is_switched_off():
    tokens = [CharSpan(i, i + 1) for i in range(100)]
    assert length_reject(tokens, tokens[:1], FilterConfig(max_length_ratio=0)) is None


@pytest.mark.parametrize(
    "source, target, is_duplicate, expected",
    [
        ("Hello there", "Xin chào", False, (["Hello", "there"], ["Xin", "chào"])),
        ("", "", True, "duplicate"),
        ("a a a", "a a a", False, "identical_sides"),
        ("a a a", "b", False, "too_long"),
    ],
)
def test_a_pair_is_filtered_by_repetition_then_texts_then_lengths(source, target, is_duplicate, expected):
    config = FilterConfig(max_words=2)
    assert filter_pair(pair(source, target), is_duplicate, (str.split, str.split), config) == expected


def test_a_pair_that_its_texts_refuse_is_not_tokenized():
    def tokenize(text: str) -> list[str]:
        raise AssertionError(f"tokenized {text!r}")

    assert filter_pair(pair("", "b"), False, (tokenize, tokenize), FilterConfig()) == "empty_side"


def test_digest_is_of_both_texts_without_white_space_at_the_ends():
    assert text_digest(pair("a ", "b")) == text_digest(pair(" a", "b\u00a0", line=9))
    assert text_digest(pair("a", "b")) != text_digest(pair("b", "a"))
    assert text_digest(pair("ab", "c")) != text_digest(pair("a", "bc"))


def test_a_text_is_new_once_however_many_there_are():
    digests = [text_digest(pair(f"text {number}", "")) for number in range(5000)]
    seen = SeenTexts()
    assert all(seen.add(digest) for digest in digests)
    assert not any(seen.add(digest) for digest in digests)
    assert seen.add(bytes(16)) and not seen.add(bytes(16))


def test_a_text_that_was_seen_takes_at_most_18_bytes():
    digests = [text_digest(pair(f"text {number}", "")) for number in range(20_000)]
    tracemalloc.start()
    seen = SeenTexts()
    for digest in digests:
        seen.add(digest)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 18.1 * len(digests)
