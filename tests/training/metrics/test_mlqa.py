"""Expected values are worked out by hand from the rules of MLQA's scorer, one language after another."""

from __future__ import annotations

from functools import partial

import pytest

from training.metrics.mlqa import LANGS, normalize
from training.metrics.squad import normalize as squad_normalize
from training.metrics.squad import scores


@pytest.mark.parametrize(
    "lang, text, expected",
    [
        ("en", "The “theory” of an A-bomb", "theory of abomb"),
        ("en", "der Mann", "der mann"),
        ("es", "La Casa de los unos, y el una-voz", "casa de y unavoz"),
        ("es", "ellas", "ellas"),
        ("de", "Die Größe eines DER Häuser", "größe häuser"),
        ("de", "dessen, keinem", "dessen keinem"),
        ("vi", "Những cái của Hà Nội là", "hà nội"),
        ("vi", "láng", "láng"),  # only the whole word là
        ("hi", "दिल्ली, भारत।", "दिल्ली भारत"),  # no articles; the danda is punctuation
        ("hi", "The a", "the a"),
        ("ar", "العاصمة القاهرة", "عاصمة قاهرة"),
        ("ar", "أطفال", "أطف"),  # the article goes inside words too,
        ("ar", "رسالة", "رس ة"),  # which takes them apart
        ("ar", "«المال»", "م"),
        ("ar", "؟مصر،", "مصر"),
        ("zh", "天气,很好", "天 气 很 好"),
        ("zh", "NFL 第50届Super Bowl", "nfl 第 50 届 super bowl"),  # other scripts stay words
        ("zh", "《红楼梦》", "红 楼 梦"),
        ("zh", "一龥龦", "一 龥 龦"),  # the range ends at U+9FA5: what follows is still a word of its own
        ("zh", "龦龦", "龦龦"),
        ("zh", "the", "the"),
    ],
)
def test_normalises_by_language(lang: str, text: str, expected: str) -> None:
    assert normalize(text, lang) == expected


@pytest.mark.parametrize("lang", LANGS)
def test_all_scripts_punctuation_goes_and_symbols_of_ascii_do_too(lang: str) -> None:
    assert normalize("¿x—y… «z» 「w」 1$+2 3€", lang) == "xy z w 12 3€"


@pytest.mark.parametrize(
    "text, expected", [("أطفال", "أطفال"), ("العاصمة القاهرة", "عاصمة قاهرة"), ("«المال»", "مال"), ("والقمر", "والقمر")]
)
def test_the_arabic_article_can_be_taken_from_the_start_of_words_only(text: str, expected: str) -> None:
    assert normalize(text, "ar", "word_start") == expected


def test_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="knows en, ar, de, es, hi, vi, zh; found 'fr'"):
        normalize("le chat", "fr")


def test_chinese_f1_counts_characters_where_squads_counts_one_word() -> None:
    golds, predictions = [("q", ["天气很好"])], {"q": "天气"}
    assert scores(golds, predictions, partial(normalize, lang="zh")).f1 == [2 * 1.0 * 0.5 / 1.5]
    assert scores(golds, predictions, squad_normalize).f1 == [0.0]


def test_arabic_rules_change_the_score() -> None:
    golds, predictions = [("q", ["أطفال مصر"])], {"q": "أطف مصر"}
    assert scores(golds, predictions, partial(normalize, lang="ar")).exact == [1]
    assert scores(golds, predictions, partial(normalize, lang="ar", arabic="word_start")).exact == [0]
