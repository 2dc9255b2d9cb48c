from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.aligner.links import Link
from pipelines.steps.clism.masking import MaskingConfig, MentionReject, TokenizedPair, mask_mentions
from pipelines.steps.common.sentence_pairs import EntityMention, SentencePair
from schemas.clism import problems
from schemas.languages import LanguagePair
from schemas.spans import CharSpan

CONFIG = MaskingConfig()


def tokenized(source: str, target: str, *mentions: str) -> TokenizedPair:
    """A pair of white-space tokenised sentences; the mentions are given by their text."""
    pair = SentencePair("id", LanguagePair("en", "vi"), "news.en", 17, source, target)

    def words(text):
        end, spans = 0, []
        for word in text.split():
            start = text.index(word, end)
            end = start + len(word)
            spans.append(CharSpan(start, end))
        return spans

    found = [EntityMention(CharSpan(source.index(text), source.index(text) + len(text)), "GPE") for text in mentions]
    return TokenizedPair(pair, words(source), words(target), found)


def reasons(rejects: list[MentionReject]) -> list[str]:
    return [reject.reason for reject in rejects]


def test_every_mention_becomes_one_que_and_keeps_its_answer():
    row = tokenized("Anna Lee lives in Hanoi .", "Lee Anna sống ở Hà Nội .", "Anna Lee", "Hanoi")
    links = [Link(0, 1, 0.9), Link(1, 0, 0.7), Link(2, 2), Link(3, 3), Link(4, 4, 0.8), Link(4, 5, 0.6), Link(5, 6)]
    example, rejects = mask_mentions(row, links, CONFIG)
    assert rejects == [] and problems(example) == []
    assert example.masked_source_text == "[QUE] lives in [QUE] ."
    answers = [example.target_text[q.answer_start_char : q.answer_end_char] for q in example.questions]
    assert answers == ["Lee Anna", "Hà Nội"]
    assert [q.alignment_score for q in example.questions] == pytest.approx([0.8, (0.8 + 0.8 + 0.6) / 3])


def test_text_is_kept_as_it_was_read_around_the_masks():
    row = tokenized("  Hue  and\u00a0 Hanoi!", "Huế và Hà-Nội!", "Hue")
    example, _ = mask_mentions(row, [Link(0, 0)], CONFIG)
    assert example.masked_source_text == "  [QUE]  and\u00a0 Hanoi!"
    assert example.questions[0].que_start_char == 2 and problems(example) == []


@pytest.mark.parametrize(
    "source, target, mention, links, config, reason",
    [
        ("in Hanoi .", "ở Hà Nội .", "Hanoi", [], CONFIG, "no_link"),
        ("in Hanoi .", "ở Hà Nội .", "Han", [Link(1, 1)], CONFIG, "not_on_word_boundary"),
        ("in Hanoi .", "ở Hà Nội .", "Hanoi", [Link(1, 1), Link(0, 2), Link(1, 3)], CONFIG, "inconsistent"),
        ("a b c d", "x y", "a b c", [Link(0, 0)], replace(CONFIG, max_span_words=2), "mention_too_long"),
        ("a Hue", "x y z", "Hue", [Link(1, 0), Link(1, 2)], replace(CONFIG, max_span_words=2), "answer_too_long"),
        ("in Hanoi .", "ở Hà Nội .", "Hanoi", [Link(1, 1, 0.49)], CONFIG, "low_score"),
        ("in Hanoi .", "ở Hà Nội .", "Hanoi", [Link(1, 3)], CONFIG, "only_punctuation"),
        ("in - Hanoi", "ở Hà Nội", "-", [Link(1, 1)], CONFIG, "only_punctuation"),
        ("this is Hue", "đây là Huế", "this is", [Link(0, 0), Link(1, 1)], CONFIG, "only_stop_words"),
    ],
)
def test_a_mention_without_a_sound_answer_is_refused_with_its_reason(source, target, mention, links, config, reason):
    example, rejects = mask_mentions(tokenized(source, target, mention), links, config)
    assert example is None and reasons(rejects) == [reason]


def test_the_least_score_is_still_asked_and_zero_asks_everything():
    row = tokenized("in Hanoi .", "ở Hà Nội .", "Hanoi")
    assert mask_mentions(row, [Link(1, 1, 0.5)], CONFIG)[0] is not None
    assert mask_mentions(row, [Link(1, 1, 0.01)], replace(CONFIG, min_score=0.0))[0] is not None


def test_a_capitalised_stop_word_is_a_name_unless_it_begins_the_text():
    links = [Link(0, 0), Link(1, 1), Link(2, 2)]
    assert mask_mentions(tokenized("in May 2020", "mùa xuân 2020", "May"), links, CONFIG)[0] is not None
    assert reasons(mask_mentions(tokenized("May in 2020", "xuân trong 2020", "May"), links, CONFIG)[1]) == [
        "only_stop_words"
    ]


def test_of_overlapping_answers_the_better_scored_stays():
    row = tokenized("Hue or Hanoi", "Huế Hà Nội", "Hue", "Hanoi")
    links = [Link(0, 0, 0.9), Link(0, 1, 0.2), Link(2, 1, 0.8), Link(2, 2, 0.8)]
    example, rejects = mask_mentions(row, links, replace(CONFIG, strictness="any"))
    assert [q.entity_label for q in example.questions] == ["GPE"]
    assert example.masked_source_text == "Hue or [QUE]" and reasons(rejects) == ["overlapping_answers"]


def test_any_strictness_takes_what_consistency_refuses():
    row = tokenized("in Hanoi", "ở Hà Nội", "Hanoi")
    links = [Link(0, 1), Link(1, 1), Link(1, 2)]
    assert mask_mentions(row, links, CONFIG)[0] is None
    assert mask_mentions(row, links, replace(CONFIG, strictness="any"))[0] is not None


def test_mentions_found_are_questions_and_rejects():
    row = tokenized("Hue and Hanoi and Saigon", "Huế và Hà Nội", "Hue", "Hanoi", "Saigon")
    example, rejects = mask_mentions(row, [Link(0, 0), Link(2, 2), Link(2, 3)], CONFIG)
    assert len(example.questions) + len(rejects) == 3
