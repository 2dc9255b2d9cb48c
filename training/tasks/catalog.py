"""Every task by its name: how its files are read, and what is scored in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from training.tasks import absa, conll, mlqa, paws_x, squad, tydiqa, universal_ner, wikiann, xnli, xquad
from training.tasks.files import Read


def _lang(path: Path, lang: str) -> str:
    return lang


class Task(NamedTuple):
    """`read(path, lang)` gives the records of one file, what to know of them, and a ledger of all that the file holds;
    `row(path, lang)` what a table calls that file."""

    kind: Literal["qa", "tagging", "pairs"]
    read: Callable[[Path, str | None], Read[Any]]
    langs: tuple[str, ...]  # in the order in which papers print them
    labels: tuple[str, ...] = ()  # of entities, targets or pairs
    row: Callable[[Path, str], str] = _lang


TASKS = {
    "squad": Task("qa", squad.read, squad.LANGS),
    "xquad": Task("qa", xquad.read, xquad.LANGS),
    "mlqa": Task("qa", mlqa.read, mlqa.LANGS, row=mlqa.row),
    "tydiqa": Task("qa", tydiqa.read, tydiqa.LANGS),
    "wikiann": Task("tagging", wikiann.read, wikiann.LANGS, wikiann.LABELS),
    "conll": Task("tagging", conll.read, conll.LANGS, conll.LABELS),
    "universal_ner": Task(
        "tagging", universal_ner.read, universal_ner.LANGS, universal_ner.LABELS, row=universal_ner.row
    ),
    "absa": Task("tagging", absa.read, absa.LANGS, absa.LABELS),
    "paws_x": Task("pairs", paws_x.read, paws_x.LANGS, paws_x.LABELS),
    "xnli": Task("pairs", xnli.read, xnli.LANGS, xnli.LABELS),
}
