from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from schemas.shards import read_shards
from training.data.features import ClismFeatures, Limits, WaeFeatures, clism_features, wae_features
from training.data.tokens import TextEncoder

from .conftest import ROOT, TEXTS

XLM_R = Limits()
WIDE = Limits(10_000, 10_000, 10_000, 10_000, 40_000)
Row = Mapping[str, Any]


def clism_row(source: str, mentions: list[str], target: str, answers: list[str]) -> dict[str, Any]:
    """A row of clism/1 with the fields that features are made of; mentions and answers are first occurrences."""
    masked, end, questions = "", 0, []
    for mention, answer in zip(mentions, answers, strict=True):
        start = source.index(mention, end)
        masked += source[end:start]
        at = target.index(answer)
        questions.append({"que_start_char": len(masked), "answer_start_char": at, "answer_end_char": at + len(answer)})
        masked += "[QUE]"
        end = start + len(mention)
    return {
        "id": "c",
        "source_text": source,
        "masked_source_text": masked + source[end:],
        "target_text": target,
        "questions": questions,
    }


def mrc_row(query: str, context: str, answers: list[tuple[int, int]], masks: list[int] | None = None) -> dict[str, Any]:
    """A row of anchor_mrc/1 with the fields that features are made of; `masks` are the starts of "[MASK]"s."""
    return {
        "id": "m",
        "query_text": query,
        "query_mask_spans": [{"start_char": start, "end_char": start + 6} for start in masks or []],
        "context_text": context,
        "answers": [{"start_char": start, "end_char": end} for start, end in answers],
        "answerable": bool(answers),
    }


def read_back(
    encoder: TextEncoder, text: str, side: tuple[int, int], answer: tuple[int, int], start_char: int, end_char: int
) -> bool:
    """Whether the answer's tokens read exactly as `text[start_char:end_char]`; they must be the fewest that cover it.

    Code points that no token was made from are not expected back.
    """
    _, starts, ends = encoder.encode(text)
    first, last = answer[0] - side[0], answer[1] - side[0]
    assert 0 <= first <= last < side[1] - side[0]
    seen = {place for start, end in zip(starts, ends, strict=True) for place in range(start, end)}
    wanted = seen.intersection(range(start_char, end_char))
    assert wanted <= set(range(starts[first], ends[last]))
    for token in (first, last):  # each of them is needed
        assert wanted.intersection(range(starts[token], ends[token]))
    return text[starts[first] : ends[last]] == text[start_char:end_char]


def check_clism(row: Row, encoder: TextEncoder) -> Counter[str]:
    features = clism_features(row, encoder, WIDE)
    assert isinstance(features, ClismFeatures)
    assert len(features.que) == len(features.answers) == len(row["questions"])
    assert [features.ids[place] for place in features.que] == [encoder.que_id] * len(features.que)
    assert features.ids.count(encoder.que_id) == len(features.que)
    assert features.source[1] <= features.target[0]
    exact = [
        read_back(
            encoder,
            row["target_text"],
            features.target,
            answer,
            question["answer_start_char"],
            question["answer_end_char"],
        )
        for question, answer in zip(row["questions"], features.answers, strict=True)
    ]
    assert exact.count(False) == features.notes.count("not_on_token_boundary") == len(features.notes)
    return Counter(features.notes)


def check_wae(row: Row, encoder: TextEncoder) -> Counter[str]:
    features = wae_features(row, encoder, WIDE)
    assert isinstance(features, WaeFeatures)
    assert features.answerable == row["answerable"] == bool(features.answers)
    assert features.ids[slice(*features.context)] == encoder.encode(row["context_text"]).ids
    assert features.ids.count(encoder.mask_id) == len(row["query_mask_spans"])
    alone = [wae_features({**row, "answers": [span]}, encoder, WIDE) for span in row["answers"]]
    placed = [each.answers[0] for each in alone if isinstance(each, WaeFeatures)]
    assert list(features.answers) == list(dict.fromkeys(placed))
    text = row["context_text"]
    exact = [
        read_back(encoder, text, features.context, answer, span["start_char"], span["end_char"])
        for answer, span in zip(placed, row["answers"], strict=True)
    ]
    assert exact.count(False) == features.notes.count("not_on_token_boundary") == len(features.notes)
    return Counter(features.notes)


# --- every answer comes back as its text ------------------------------------------------------------------------------


@pytest.mark.parametrize("name, check", [("clism-1", check_clism), ("anchor_mrc-1", check_wae)])
def test_every_answer_of_the_golden_datasets_reads_back(name: str, check: Any, encoder: TextEncoder) -> None:
    rows = [row for batch in read_shards(ROOT / "tests" / "golden" / name) for row in batch.to_pylist()]
    assert rows
    for row in rows:
        assert check(row, encoder) == Counter()


def sample_rows() -> list[dict[str, Any]]:
    """Every pair of the bundled sample, a word or a few of each side taken for mention and answer."""
    lines = (ROOT / "pipelines" / "sample" / "sample.tsv").read_text("utf-8").splitlines()
    rows = []
    for number, line in enumerate(lines[1:]):
        source, *targets = line.split("\t")
        words = source.split()
        for target in targets:
            answers = target.rstrip(".!?।").split()
            if not words or not answers:  # the sample has a few bad lines
                continue
            mention = words[number % len(words)].strip(".,")
            answer = " ".join(answers[number % len(answers) :][: 1 + number % 3])
            rows.append(clism_row(source, [mention], target, [answer]))
    return rows


def test_every_answer_of_the_bundled_sample_reads_back(encoder: TextEncoder) -> None:
    notes = sum((check_clism(row, encoder) for row in sample_rows()), Counter[str]())
    assert notes.total() < 0.02 * len(sample_rows())


LETTERS = "aZé’ßﬁ ا١لُ हि२क़ ơ中京東にハﾊﾞ กรุำ 서ᄒ বা্ తెి яй Ως 👍🏽\u200d♀️\u00a0\u3000\u0301\u00ad¨½.,-"


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A text, and spans of it that begin and end with a letter or a digit."""
    text = draw(st.sampled_from(list(TEXTS.values())) | st.text(st.sampled_from(LETTERS), min_size=1, max_size=40))
    edges = [place for place, char in enumerate(text) if char.isalnum()]
    if not edges:
        return text, []
    spans = draw(st.lists(st.tuples(st.sampled_from(edges), st.sampled_from(edges)), max_size=3))
    return text, sorted({(min(span), max(span) + 1) for span in spans})


@given(texts_with_spans(), texts_with_spans())
def test_every_answer_in_any_script_reads_back(
    encoder: TextEncoder, first: tuple[str, list[tuple[int, int]]], second: tuple[str, list[tuple[int, int]]]
) -> None:
    (query, _), (context, answers) = first, second
    row = mrc_row("[MASK] " + query, context, answers, masks=[0])
    if encoder.encode(context).ids:
        check_wae(row, encoder)
    if answers and encoder.encode(query).ids:
        question = {"que_start_char": 0, "answer_start_char": answers[0][0], "answer_end_char": answers[0][1]}
        row = {"id": "c", "source_text": query, "masked_source_text": "[QUE]" + query, "target_text": context}
        check_clism({**row, "questions": [question]}, encoder)


# --- CLISM ------------------------------------------------------------------------------------------------------------

VI = clism_row("Anna flew to Hanoi today", ["Anna", "Hanoi"], "Hôm nay Anna bay đến Hà Nội.", ["Anna", "Hà Nội"])


def hanoi(times: int) -> str:
    """Makes a text of `count` tokens."""
    return " ".join(["Hanoi"] * times)


def read(tokenizer: PreTrainedTokenizerBase, ids: tuple[int, ...]) -> str:
    return "".join(tokenizer.convert_ids_to_tokens(list(ids)))


def test_a_pair_has_the_tokenizers_form(encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
    features = clism_features(VI, encoder, Limits())
    assert isinstance(features, ClismFeatures)
    assert list(features.ids) == tokenizer("[QUE] flew to [QUE] today", VI["target_text"]).input_ids
    assert list(features.source_only) == tokenizer("Anna flew to Hanoi today").input_ids
    assert read(tokenizer, features.ids[slice(*features.source)]) == "[QUE]▁flew▁to[QUE]▁today"
    assert read(tokenizer, features.ids[slice(*features.target)]) == "▁Hôm▁nay▁Anna▁bay▁đến▁Hà▁Nội."
    found = [read(tokenizer, features.ids[first : last + 1]) for first, last in features.answers]
    assert (found, features.id, features.notes) == (["▁Anna", "▁Hà▁Nội"], "c", ())


def test_text_that_spells_the_placeholder_is_no_question(encoder: TextEncoder) -> None:
    row = clism_row("[QUE] Anna", ["Anna"], "Anna", ["Anna"])
    features = clism_features(row, encoder, Limits())
    assert isinstance(features, ClismFeatures)
    assert features.ids.count(encoder.que_id) == len(features.que) == 1
    assert features.ids[features.que[0]] == encoder.que_id


def places(encoder: TextEncoder, row: Row, limits: Limits = XLM_R) -> ClismFeatures:
    features = clism_features(row, encoder, limits)
    assert isinstance(features, ClismFeatures)
    return features


def test_questions_beyond_the_limits_are_dropped_and_counted(encoder: TextEncoder) -> None:
    whole = places(encoder, VI)
    second_que = whole.que[1] - whole.source[0]
    second_answer = whole.answers[1][1] - whole.target[0]  # its last token
    last = clism_features(VI, encoder, Limits(source=second_que + 1, target=second_answer + 1))
    assert isinstance(last, ClismFeatures)
    assert (len(last.que), last.notes) == (2, ())
    assert (last.source[1] - last.source[0], last.target[1] - last.target[0]) == (second_que + 1, second_answer + 1)
    assert len(last.source_only) == second_que + 1 + 2

    for limits, note in [
        (Limits(source=second_que), "truncated_question"),
        (Limits(target=second_answer), "truncated_answer"),  # its first token is still there
    ]:
        cut = clism_features(VI, encoder, limits)
        assert isinstance(cut, ClismFeatures)
        assert (cut.que, len(cut.answers), cut.notes) == (whole.que[:1], 1, (note,))
    assert clism_features(VI, encoder, Limits(target=1)) == "truncated_answer"
    assert clism_features(VI, encoder, Limits(source=0)) == "truncated_question"


@pytest.mark.parametrize(
    "source_words, target_words, limits, source, target",
    [
        (10, 10, Limits(source=10, target=10, total=24), 10, 10),  # all fits: 4 special tokens
        (10, 10, Limits(source=10, target=10, total=23), 9, 10),
        (10, 10, Limits(source=10, target=10, total=20), 8, 8),
        (30, 5, Limits(source=10, target=10, total=20), 10, 5),
        (30, 7, Limits(source=10, target=10, total=20), 9, 7),
        (7, 30, Limits(source=10, target=10, total=20), 7, 9),
    ],
)
def test_a_pair_fits_into_its_limit_special_tokens_included(
    source_words: int, target_words: int, limits: Limits, source: int, target: int, encoder: TextEncoder
) -> None:
    row = clism_row(hanoi(source_words), ["Hanoi"], hanoi(target_words), ["Hanoi"])
    features = places(encoder, row, limits)
    assert (features.source[1] - features.source[0], features.target[1] - features.target[0]) == (source, target)
    assert len(features.ids) == source + target + 4 <= limits.total


def test_questions_beyond_what_a_pair_keeps_are_dropped_and_counted(encoder: TextEncoder) -> None:
    row = clism_row(f"{hanoi(3)} Huế", ["Huế"], "Hà", ["Hà"])  # [QUE] and "Hà" are a token each, as "Hanoi" is
    assert places(encoder, row, Limits(total=4 + 1 + 4)).notes == ()
    assert clism_features(row, encoder, Limits(total=4 + 1 + 3)) == "truncated_question"
    row = clism_row("Huế", ["Huế"], f"{hanoi(3)} Hà", ["Hà"])
    assert places(encoder, row, Limits(total=1 + 4 + 4)).notes == ()
    assert clism_features(row, encoder, Limits(total=1 + 4 + 3)) == "truncated_answer"


LEFT_OUT = "\u200b\u0001"  # the normaliser makes blanks of them, or nothing


@pytest.mark.parametrize(
    "row, reason",
    [
        ({**VI, "source_text": LEFT_OUT}, "empty_source"),
        ({**VI, "target_text": LEFT_OUT}, "empty_target"),
        (clism_row("Anna", ["Anna"], f"a {LEFT_OUT} b", [LEFT_OUT]), "answer_without_tokens"),
        ({**VI, "questions": []}, "no_question"),
    ],
)
def test_pairs_without_a_question_left_are_refused_with_a_reason(row: Row, reason: str, encoder: TextEncoder) -> None:
    assert clism_features(row, encoder, Limits()) == reason


def test_an_answer_inside_a_token_keeps_the_token_and_is_counted(encoder: TextEncoder) -> None:
    row = clism_row("Anna", ["Anna"], "東京都", ["京"])
    features = places(encoder, row)
    assert features.notes == ("not_on_token_boundary",)
    (answer,) = features.answers
    assert not read_back(encoder, "東京都", features.target, answer, 1, 2)


# --- Wiki Anchor Extraction -------------------------------------------------------------------------------------------

HANOI = mrc_row("[MASK] is no [MASK].", "Anna came to Hanoi; Hanoi is large.", [(13, 18), (20, 25)], masks=[0])


def test_masks_of_the_query_are_the_tokenizers_and_other_text_is_text(
    encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase
) -> None:
    features = wae_features(HANOI, encoder, Limits())
    assert isinstance(features, WaeFeatures)
    query = features.ids[1 : features.context[0] - 2]
    assert read(tokenizer, query) == "<mask>▁is▁no▁[MASK]."
    assert query.count(encoder.mask_id) == 1
    assert features.ids[slice(*features.context)] == encoder.encode(HANOI["context_text"]).ids
    found = [read(tokenizer, features.ids[first : last + 1]) for first, last in features.answers]
    assert (found, features.answerable, features.notes) == (["▁Hanoi", "▁Hanoi"], True, ())


def test_answers_beyond_the_limit_are_dropped_and_counted(encoder: TextEncoder) -> None:
    whole = wae_features(HANOI, encoder, Limits())
    assert isinstance(whole, WaeFeatures)
    first, second = (answer[1] - whole.context[0] for answer in whole.answers)
    cut = wae_features(HANOI, encoder, Limits(query=3, context=second))
    assert isinstance(cut, WaeFeatures)
    assert (len(cut.answers), cut.notes) == (1, ("truncated_answer",))
    assert cut.context == (1 + 3 + 2, 1 + 3 + 2 + second)
    assert wae_features(HANOI, encoder, Limits(context=first)) == "truncated_answer"
    unanswerable = wae_features({**HANOI, "answers": [], "answerable": False}, encoder, Limits(context=first))
    assert isinstance(unanswerable, WaeFeatures)
    assert (unanswerable.answers, unanswerable.answerable) == ((), False)


def test_a_context_has_what_its_query_leaves(encoder: TextEncoder) -> None:
    words = 40
    last = (39 * 6, 39 * 6 + 5)
    long, short = (mrc_row(hanoi(in_query), hanoi(words), [(0, 5), last]) for in_query in (30, 10))
    cut = wae_features(long, encoder, Limits(total=words + 14))
    whole = wae_features(short, encoder, Limits(total=words + 14))
    assert isinstance(cut, WaeFeatures) and isinstance(whole, WaeFeatures)
    assert (cut.context[1] - cut.context[0], cut.notes) == (words - 20, ("truncated_answer",))
    assert (whole.context[1] - whole.context[0], len(whole.answers), whole.notes) == (words, 2, ())
    assert len(cut.ids) == len(whole.ids) == words + 14
    own = wae_features(short, encoder, Limits(context=5, total=words + 14))
    assert isinstance(own, WaeFeatures) and own.context[1] - own.context[0] == 5
    fewer = wae_features(long, encoder, Limits(query=10, total=words + 14))
    assert isinstance(fewer, WaeFeatures) and fewer.ids == whole.ids


def test_answers_in_the_same_tokens_are_one(encoder: TextEncoder) -> None:
    features = wae_features(mrc_row("[MASK]", "東京都", [(0, 1), (1, 2)], masks=[0]), encoder, Limits())
    assert isinstance(features, WaeFeatures)
    assert len(features.answers) == 1
    assert features.notes == ("not_on_token_boundary",) * 2


@pytest.mark.parametrize(
    "row, reason",
    [
        (mrc_row(LEFT_OUT, "a", [(0, 1)]), "empty_query"),
        (mrc_row("a", LEFT_OUT, []), "empty_context"),
        (mrc_row("a", f"a {LEFT_OUT}", [(2, 4)]), "answer_without_tokens"),
        ({**HANOI, "answers": []}, "no_answer"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_a_reason(row: Row, reason: str, encoder: TextEncoder) -> None:
    assert wae_features(row, encoder, Limits()) == reason
