"""Files of links, and how well they agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.align.pharaoh import Agreement, Firsts, compare_files, format_links
from pipelines.aligner.links import Link
from schemas.errors import InputError


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_links_are_written_as_pharaoh_text() -> None:
    links = [Link(0, 0, 0.98), Link(1, 2, 0.71234)]
    assert format_links(links, scores=False) == "0-0 1-2"
    assert format_links(links, scores=True) == "0-0:0.9800 1-2:0.7123"


def test_agreement_of_a_worked_case(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold", "0-0 1?1 2-2", "", "0-1 0?1")
    found = write(tmp_path / "found", "0-0:0.98 1-1:0.5 2-3:1e-05", "0-0", "0-1")
    counts = compare_files(gold, found)
    assert counts == Agreement(sentences=3, found=5, found_possible=3, found_sure=2, sure=3, possible=4)
    assert counts.precision == 3 / 5 and counts.recall == 2 / 3
    assert counts.error_rate == pytest.approx(1 - (2 + 3) / (5 + 3))


def test_naacl_gold_is_the_same_gold_counted_from_one(tmp_path: Path) -> None:
    found = write(tmp_path / "found", "0-0 1-1", "", "3-4")
    pharaoh = write(tmp_path / "gold", "0-0 1?1", "", "3-4 2?0")
    naacl = write(tmp_path / "naacl", "0001 1 1 S", "0001 2 2 P", "", "0003 4 5", "0003 3 1 P 0.4")
    assert compare_files(naacl, found) == compare_files(pharaoh, found)
    assert compare_files(naacl, found).sure == 2


def test_links_counted_from_one_are_warned_of_and_read_as_such(tmp_path: Path) -> None:
    from_zero = write(tmp_path / "zero", "0-0 1-1", "", "3-4")
    from_one = write(tmp_path / "one", "1-1 2-2", "", "4-5")
    naacl = write(tmp_path / "naacl", "1 1 1", "1 2 2", "3 4 5")
    told: list[str] = []
    wrong = compare_files(from_one, from_zero, warn=told.append)
    assert wrong.found_sure == 1 and len(told) == 1
    assert told[0].startswith(f"{from_one}: no link has a word 0") and told[0].endswith("with: --one-based")
    told.clear()
    compare_files(from_zero, from_one, warn=told.append)
    assert len(told) == 1 and told[0].startswith(f"{from_one}:") and told[0].endswith("with: --one-based-links")
    told.clear()
    right = compare_files(from_zero, from_zero, warn=told.append)
    assert compare_files(from_one, from_zero, Firsts(gold=1), told.append) == right
    assert compare_files(from_zero, from_one, Firsts(links=1), told.append) == right
    assert compare_files(naacl, from_zero, Firsts(gold=1), told.append) == right
    assert compare_files(naacl, from_zero, warn=told.append) == right and right.error_rate == 0.0
    for first, path in ((Firsts(gold=1), "zero"), (Firsts(links=1), "zero")):
        with pytest.raises(InputError, match=f"{path}:1: expected links counted from 1, found '0-0'"):
            compare_files(from_zero, from_zero, first)


def test_a_word_0_on_one_side_is_no_sign_of_counting_from_one(tmp_path: Path) -> None:
    told: list[str] = []
    compare_files(write(tmp_path / "a", "1-0", "2-2"), write(tmp_path / "b", "", ""), warn=told.append)
    assert told == []


@pytest.mark.parametrize(
    "gold, found, message",
    [
        (["0-" + "9" * 5000], ["0-0"], "gold:1: expected links such as"),
        (["0-0", "0:1"], ["0-0", "0-1"], r"gold:2: expected links such as 0-0 1\?2, found '0:1'"),
        (["0-0"], ["0?0"], r"found:1: expected links such as 0-0 1-2, found '0\?0'"),
        (["0-0", "0-0"], ["0-0"], "found has 1 lines and .*gold has 2"),
        (["1 1 1 S", "1 0 1 S"], ["0-0"], "gold:2: expected SENTENCE SOURCE TARGET"),
        (["1 1 1 S", "2 1 1 S"], ["0-0"], "gold:2: sentence 2, but links were found for 1 sentences"),
        (["0-0", "\0"], ["0-0", "0-0"], "gold:2: .*nul_character"),
    ],
)
def test_files_that_do_not_fit_are_refused_with_their_line(
    gold: list[str], found: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        compare_files(write(tmp_path / "gold", *gold), write(tmp_path / "found", *found))
