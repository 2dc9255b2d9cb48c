from __future__ import annotations

import pytest

from schemas.languages import LANGUAGES, language


def test_every_language_of_mpmr_is_known() -> None:
    codes = "ar bn de el en es fi fr hi id it ja ko nl pl pt ru sv sw te th tr vi zh"
    assert set(codes.split()) <= set(LANGUAGES)


def test_rows_stand_under_their_own_code_in_alphabetical_order() -> None:
    assert [row.code for row in LANGUAGES.values()] == sorted(LANGUAGES)


def test_iso639_3_codes_are_distinct_and_no_code_of_ours() -> None:
    codes = [row.iso639_3 for row in LANGUAGES.values()]
    assert len(set(codes)) == len(LANGUAGES)
    assert set(codes) & set(LANGUAGES) == {"ltg"}  # it has no shorter one


def test_only_arabic_script_runs_right_to_left() -> None:
    assert {row.code for row in LANGUAGES.values() if row.right_to_left} == {"ar", "ur"}


def test_languages_without_spaces() -> None:
    assert {row.code for row in LANGUAGES.values() if not row.spaced} == {"ja", "th", "zh"}


def test_a_known_code_gives_its_row() -> None:
    assert language("vi").name == "Vietnamese"


@pytest.mark.parametrize(
    "spelling, meant",
    [
        ("vie", "'vi' (Vietnamese)"),
        ("eng", "'en' (English)"),
        ("VI", "'vi'"),
        ("zh-CN", "'zh'"),
        ("zh_Hans", "'zh'"),
        ("cmn", "'zh'"),
        ("german", "'de'"),
        ("Vietnamse", "'vi'"),
        ("es-419", "'es'"),
    ],
)
def test_another_spelling_is_refused_and_the_code_is_named(spelling: str, meant: str) -> None:
    with pytest.raises(ValueError, match="unknown language") as error:
        language(spelling)
    assert f"Did you mean {meant}" in str(error.value)


def test_what_resembles_nothing_is_answered_with_all_codes() -> None:
    with pytest.raises(ValueError, match="Known languages: ar bg bn de"):
        language("q0q0q0")
