"""Reads and writes files of alignment links, and measures how well links agree with gold ones.

A Pharaoh file has a line per sentence pair with its links `0-0 1-2` (source-target, both 0-based), which may have
scores: `0-0:0.98 1-2:0.71`. A gold file writes a *sure* link `0-0` and a *possible* one `1?2`. Gold links may also be
in the NAACL format, a line `SENTENCE SOURCE TARGET [S|P]` per link, counted from 1 and sure unless marked P. Some
Pharaoh files count from 1 as well; the only sign is that no link has a word 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pipelines.aligner.links import Link, LinkSet
from pipelines.steps.common.files import BadText, read_lines
from schemas.errors import InputError

_LINK = re.compile(r"(\d{1,9})([-?])(\d{1,9})(?::\d*\.?\d+(?:e-?\d+)?)?", re.ASCII | re.IGNORECASE)
_NAACL = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+\d*\.?\d+)?\s*", re.ASCII)


class GoldLinks(NamedTuple):
    sure: LinkSet
    possible: LinkSet  # the sure ones too


class Agreement(NamedTuple):
    """Counts found and gold links, over all sentences."""

    sentences: int
    found: int
    found_possible: int
    found_sure: int
    sure: int
    possible: int

    @property
    def precision(self) -> float:
        return self.found_possible / max(1, self.found)

    @property
    def recall(self) -> float:
        return self.found_sure / max(1, self.sure)

    @property
    def error_rate(self) -> float:
        """Alignment error rate (Och and Ney 2003): 0 where all sure links were found and only possible ones."""
        return 1.0 - (self.found_sure + self.found_possible) / max(1, self.found + self.sure)


def format_links(links: Iterable[Link], scores: bool) -> str:
    """Formats links as a line of a Pharaoh file, without the line break.

    >>> format_links([Link(0, 0, 0.98), Link(1, 2, 0.7123)], scores=True)
    '0-0:0.9800 1-2:0.7123'
    """
    return " ".join(f"{i}-{j}:{score:.4f}" if scores else f"{i}-{j}" for i, j, score in links)


def agreement(found: Iterable[LinkSet], gold: Iterable[GoldLinks]) -> Agreement:
    """Adds up the links of each sentence."""
    total = Agreement(0, 0, 0, 0, 0, 0)
    for links, (sure, possible) in zip(found, gold, strict=True):
        counts = (1, len(links), len(links & possible), len(links & sure), len(sure), len(possible))
        total = Agreement(*(before + more for before, more in zip(total, counts, strict=True)))
    return total


class Firsts(NamedTuple):
    """The number, 0 or 1, that the first word of a sentence has in either file."""

    gold: int = 0
    links: int = 0


FROM_ZERO = Firsts()


def compare_files(
    gold_path: str, links_path: str, first: Firsts = FROM_ZERO, warn: Callable[[str], None] | None = None
) -> Agreement:
    """Compares a Pharaoh file with a gold file.

    `warn` receives a message if a file looks as if it counts words from 1. Raises `InputError` for a malformed line, or
    if the files have different numbers of sentences.
    """
    found = list(read_links(links_path, first.links))
    is_pharaoh = not is_naacl(gold_path)
    gold = list(read_gold(gold_path, first.gold)) if is_pharaoh else read_naacl(gold_path, len(found))
    if len(found) != len(gold):
        raise InputError(
            f"{links_path} has {len(found)} lines and {gold_path} has {len(gold)}: expected a line for each sentence "
            "pair in both, an empty one where there is no link."
        )
    for path, links, option, doubtful in (
        (gold_path, [sentence.possible for sentence in gold], "--one-based", is_pharaoh and not first.gold),
        (links_path, found, "--one-based-links", not first.links),
    ):
        if warn and doubtful and looks_one_based(links):
            warn(
                f"{path}: no link has a word 0, on either side, so the words look counted from 1; then the figures are "
                f"wrong. Read them so with: {option}"
            )
    return agreement(found, gold)


def looks_one_based(sentences: Iterable[LinkSet]) -> bool:
    """Returns whether there are links, but none has a word 0 on either side."""
    least = min((min(link) for links in sentences for link in links), default=0)
    return least > 0


def read_links(path: str, first: int = 0) -> Iterator[LinkSet]:
    """Yields the links of each line of a Pharaoh file, without scores. `first` is the number of a first word there."""
    for kinds in _read_lines_of_links(path, "-", "0-0 1-2", first):
        yield set(kinds)


def read_gold(path: str, first: int = 0) -> Iterator[GoldLinks]:
    """Yields the links of each line of a gold file. A link that is both sure and possible is sure."""
    for kinds in _read_lines_of_links(path, "-?", "0-0 1?2", first):
        yield GoldLinks({link for link, kind in kinds.items() if "-" in kind}, set(kinds))


def _read_lines_of_links(
    path: str, allowed: str, example: str, first: int
) -> Iterator[dict[tuple[int, int], set[str]]]:
    """Yields the links of each line, each with the marks that occur between its two numbers."""
    for number, text in _texts(path):
        links: dict[tuple[int, int], set[str]] = {}
        for word in text.split():
            match = _LINK.fullmatch(word)
            if not match or match[2] not in allowed:
                raise InputError(f"{path}:{number}: expected links such as {example}, found {word[:40]!r}.")
            source, target = int(match[1]) - first, int(match[3]) - first
            if min(source, target) < 0:
                raise InputError(f"{path}:{number}: expected links counted from {first}, found {word[:40]!r}.")
            links.setdefault((source, target), set()).add(match[2])
        yield links


def is_naacl(path: str) -> bool:
    """Returns whether the first line that is not blank is `SENTENCE SOURCE TARGET [S|P]`."""
    first = next((text for _, text in _texts(path) if text.strip()), "")
    return bool(_NAACL.fullmatch(first))


def read_naacl(path: str, sentences: int) -> list[GoldLinks]:
    """Reads the links of sentences 1 to `sentences` of a file in the NAACL format."""
    gold = [GoldLinks(set(), set()) for _ in range(sentences)]
    for number, text in _texts(path):
        if not text.strip():
            continue
        match = _NAACL.fullmatch(text)
        sentence, source, target = map(int, match.groups()[:3]) if match else (0, 0, 0)
        if not match or min(sentence, source, target) < 1:
            raise InputError(
                f"{path}:{number}: expected SENTENCE SOURCE TARGET [S|P], counted from 1, found {text[:40]!r}."
            )
        if sentence > sentences:
            raise InputError(f"{path}:{number}: sentence {sentence}, but links were found for {sentences} sentences.")
        gold[sentence - 1].possible.add((source - 1, target - 1))
        if match[4] != "P":
            gold[sentence - 1].sure.add((source - 1, target - 1))
    return gold


def _texts(path: str) -> Iterator[tuple[int, str]]:
    for number, text in enumerate(read_lines(path), 1):
        if isinstance(text, BadText):
            raise InputError(f"{path}:{number}: expected a line of links, found one that is unreadable: {text.reason}.")
        yield number, text
