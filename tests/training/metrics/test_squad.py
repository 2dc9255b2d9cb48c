"""Expected values are worked out by hand from the rules of SQuAD 1.1's scorer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.metrics.squad import normalize, percent, scores


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The Denver Broncos", "denver broncos"),
        ("  two\u00a0  words \n", "two words"),
        ("A.B.C.", "abc"),  # punctuation goes before articles are looked for: no article A is left
        ("an A-level", "alevel"),
        ("the, a; an", ""),
        ("theory of a n", "theory of n"),
        ("$5–$6", "5–6"),  # ASCII's punctuation only
        ("«Die Zeit»", "«die zeit»"),
        ("der Mann", "der mann"),  # English articles, in every language
        ("“the”", "“ ”"),  # a quotation mark of another script is no word character
        ("İstanbul", "i̇stanbul"),  # lower-cased as Python does
        ("天气。", "天气。"),
    ],
)
def test_normalises_in_the_official_order(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    "prediction, golds, exact, f1",
    [
        ("the Broncos", ["Broncos"], 1, 1.0),
        ("Denver Broncos team", ["Broncos"], 0, 0.5),  # 1 of 3 words right, 1 of 1 found
        ("Denver", ["Carolina"], 0, 0.0),
        ("Denver", ["Carolina", "Denver Broncos", "Denver!"], 1, 1.0),  # the best of all golds, each figure for itself
        ("to be be", ["be to be be"], 0, 2 * 1.0 * 0.75 / 1.75),  # words count as often as they occur
        ("The", ["a"], 1, 0.0),  # nothing is left of both: they match, but share no word
        ("天气很好", ["天气"], 0, 0.0),  # unspaced text is one word
        ("", ["Broncos"], 0, 0.0),
    ],
)
def test_scores_one_question(prediction: str, golds: list[str], exact: int, f1: float) -> None:
    assert scores([("q", golds)], {"q": prediction}) == ([exact], [f1], 0)


def test_a_question_without_prediction_counts_as_wrong() -> None:
    found = scores([("q1", ["a b"]), ("q2", ["c"])], {"q2": "c", "q9": "d"})
    assert found == ([0, 1], [0.0, 1.0], 1)
    assert percent(found.exact) == 50.0


def test_a_question_without_gold_is_refused() -> None:
    with pytest.raises(ValueError, match="q has no gold"):
        scores([("q", [])], {"q": ""})


def test_adds_up_in_order_as_the_official_loop_does() -> None:
    values = [0.1] * 10
    assert percent(values) == 100.0 * 0.9999999999999999 / 10  # compensated addition would give 10


ANSWERS = st.text(alphabet="abc the.天ل ", min_size=1).filter(lambda text: normalize(text) != "")


@given(st.lists(ANSWERS, min_size=1), st.randoms(use_true_random=False))
def test_perfect_predictions_score_100_and_order_does_not_matter(answers: list[str], random: object) -> None:
    golds = [(str(index), [answer, "x y"]) for index, answer in enumerate(answers)]
    predictions = dict(golds_first(golds))
    assert scores(golds, predictions) == ([1] * len(golds), [1.0] * len(golds), 0)
    shuffled = golds[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    half = {id_: text for id_, text in predictions.items() if int(id_) % 2}
    assert percent(scores(shuffled, half).f1) == pytest.approx(percent(scores(golds, half).f1))


def golds_first(golds: list[tuple[str, list[str]]]) -> list[tuple[str, str]]:
    return [(id_, texts[0]) for id_, texts in golds]
