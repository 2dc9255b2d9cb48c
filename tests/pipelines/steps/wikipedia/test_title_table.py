from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.wikipedia import title_table
from pipelines.steps.wikipedia.title_table import KINDS, MAX_HOPS, Resolution, TitleRecord, TitleTable, build_titles
from schemas.errors import InputError


class Row(NamedTuple):
    """One page as a test writes it."""

    title: str
    to: str | None = None
    kind: str = "article"
    locator: int = 0


def table(*rows: Row) -> TitleTable:
    return build_titles(
        TitleRecord(title, to, kind if to is None else "redirect", locator) for title, to, kind, locator in rows
    )


def kind_of(titles: TitleTable, title: str) -> str:
    return titles.resolve(title).kind


def saved(titles: TitleTable) -> bytes:
    file = io.BytesIO()
    titles.save(file)
    return file.getvalue()


# --- resolving --------------------------------------------------------------------------------------------------------


def test_titles_lead_to_articles_and_articles_to_their_locators() -> None:
    titles = table(Row("Dog", locator=7), Row("Cat", locator=3 << 32 | 5), Row("Hound", "Dog"))
    dog, cat, hound = (titles.resolve(title) for title in ("Dog", "Cat", "Hound"))
    assert {dog.article, cat.article} == {0, 1}
    assert hound == Resolution(dog.article, "article", True)
    assert titles.locators[[dog.article, cat.article]].tolist() == [7, 3 << 32 | 5]
    assert titles.resolve("Wolf") == Resolution(-1, "red", False)


def test_kinds_are_kept_through_redirects() -> None:
    titles = table(Row("Mercury", kind="disambiguation"), Row("MERCURY", "Mercury"), Row("List of x", kind="list"))
    assert titles.resolve("MERCURY") == titles.resolve("Mercury")._replace(via_redirect=True)
    assert [kind_of(titles, title) for title in ("MERCURY", "List of x")] == ["disambiguation", "list"]


@pytest.mark.parametrize("hops", [1, 2, 3, MAX_HOPS])
def test_chains_of_redirects_are_followed(hops: int) -> None:
    chain = [Row(f"R{hop}", f"R{hop + 1}" if hop < hops else "Dog") for hop in range(1, hops + 1)]
    assert table(Row("Dog"), *chain).resolve("R1") == Resolution(0, "article", True)


def test_redirects_to_one_another_are_loops_and_what_leads_there_too() -> None:
    titles = table(Row("A", "B"), Row("B", "A"), Row("C", "A"), Row("Self", "Self"), Row("Dog"))
    assert [titles.resolve(title) for title in ("A", "B", "C", "Self")] == [Resolution(-1, "loop", True)] * 4
    assert titles.counts.loops == 4


def test_redirects_to_nothing_are_red() -> None:
    titles = build_titles(
        [
            TitleRecord("Missing", "Nowhere", "redirect", 0),
            TitleRecord("Elsewhere", None, "redirect", 1),
            TitleRecord("Section", "", "redirect", 2),
            TitleRecord("Chain", "Missing", "redirect", 3),
            TitleRecord("Dog", None, "article", 4),
        ]
    )
    found = [titles.resolve(title) for title in ("Missing", "Elsewhere", "Section", "Chain")]
    assert found == [Resolution(-1, "red", True)] * 4
    assert (titles.counts.articles, titles.counts.redirects, titles.counts.red_redirects) == (1, 4, 4)


def test_many_titles_at_once_are_resolved_as_one_by_one() -> None:
    titles = table(*(Row(f"T{i}", f"T{i // 2}" if i % 3 else None, KINDS[i % 2]) for i in range(200)))
    asked = [f"T{i}" for i in range(300)]
    many = titles.resolve_all(asked)
    one_by_one = [titles.resolve(title) for title in asked]
    assert many.articles.tolist() == [found.article for found in one_by_one]
    assert [KINDS[kind] for kind in many.kinds] == [found.kind for found in one_by_one]
    assert many.via_redirect.tolist() == [found.via_redirect for found in one_by_one]


def test_no_titles_and_an_empty_table() -> None:
    assert table().resolve("Dog") == Resolution(-1, "red", False)
    assert len(table(Row("Dog")).resolve_all([]).articles) == 0


# --- an oracle --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from("abcdefgh")


@given(st.dictionaries(NAMES, st.none() | NAMES, max_size=8), st.randoms(use_true_random=False))
def test_the_table_agrees_with_a_dictionary_in_any_order(pages: dict[str, str | None], shuffle: object) -> None:
    rows = [Row(title, to, locator=place) for place, (title, to) in enumerate(sorted(pages.items()))]
    titles = table(*rows)
    shuffle.shuffle(rows)  # type: ignore[attr-defined]
    assert saved(table(*rows)) == saved(titles)
    for title in "abcdefgh":
        seen, at = [], title
        while at in pages and pages[at] is not None and at not in seen:
            seen.append(at)
            at = pages[at] or ""
        found = titles.resolve(title)
        assert found.kind == ("loop" if at in seen else "article" if at in pages else "red")
        assert found.via_redirect == bool(seen)
        if found.kind == "article":
            assert rows[[row.title for row in rows].index(at)].locator == titles.locators[found.article]


# --- what a dump may hold ---------------------------------------------------------------------------------------------


def test_of_two_pages_of_one_title_the_earlier_wins() -> None:
    titles = table(Row("Dog", locator=9), Row("Dog", "Cat", locator=4), Row("Dog", locator=5), Row("Cat", locator=6))
    assert titles.resolve("Dog").via_redirect
    assert (titles.counts.duplicate_titles, titles.counts.articles, titles.counts.redirects) == (2, 1, 1)


def test_two_titles_of_one_hash_are_both_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = title_table._digest
    same: Callable[[str], bytes] = lambda title: digest("Dog")[:8] + digest(title)[8:]  # noqa: E731
    monkeypatch.setattr(title_table, "_digest", lambda title: same(title) if title in ("Dog", "Cat") else digest(title))
    titles = table(Row("Dog"), Row("Cat"), Row("Dog"), Row("Wolf"), Row("Hound", "Dog"))
    assert [kind_of(titles, title) for title in ("Dog", "Cat", "Hound", "Wolf")] == ["red", "red", "red", "article"]
    assert (titles.counts.equal_hashes, titles.counts.duplicate_titles, titles.counts.articles) == (2, 1, 1)


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "titles.bin"
    path.write_bytes(saved(table(Row("Dog", locator=7), Row("Cat"), Row("Hound", "Dog"), Row("A", "A"))))
    return path


def test_a_saved_table_is_mapped_into_memory_and_says_the_same(path: Path) -> None:
    titles = TitleTable.load(path)
    assert not titles.keys.flags.owndata and not titles.keys.flags.writeable
    assert titles.resolve("Hound") == Resolution(titles.resolve("Dog").article, "article", True)
    assert kind_of(titles, "A") == "loop"
    assert titles.counts == (2, 2, 0, 1, 0, 0)
    assert saved(titles) == path.read_bytes()


def test_an_empty_table_can_be_saved_and_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(saved(table()))
    assert TitleTable.load(tmp_path / "empty").resolve("Dog").kind == "red"


def test_a_title_takes_at_most_22_bytes() -> None:
    articles = [Row(f"Article {number}") for number in range(1000)]
    assert len(saved(table(*articles))) <= 22 * 1000 + 512
    assert len(saved(table(*articles, *(Row(f"Redirect {n}", "Article 1") for n in range(1000))))) <= 35 * 1000 + 512


@pytest.mark.parametrize("cut", ["empty", "header", "last byte", "one more"])
def test_a_truncated_file_is_refused(path: Path, cut: str) -> None:
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "header": data[:60], "last byte": data[:-1], "one more": data + b"\0"}[cut])
    with pytest.raises(InputError, match="titles"):
        TitleTable.load(path)


def test_every_altered_byte_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    header_end = data.index(b"\n", data.index(b"\n") + 1)
    blanks = range(len(data[:header_end].rstrip(b" ")), header_end)
    for place in range(0, len(data)):
        if place not in blanks:
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(InputError):
                TitleTable.load(path)


def test_another_version_and_another_file_are_refused_by_name(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"titles/1", b"titles/2", 1))
    with pytest.raises(InputError, match="version 1, found version 2"):
        TitleTable.load(path)
    path.write_bytes(b"PK\x03\x04" + os.fsencode("something else"))
    with pytest.raises(InputError, match="expected a table of titles, found a file that starts with b'PK"):
        TitleTable.load(path)
