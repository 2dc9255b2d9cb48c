"""Every task by its name: how its files are read, and how its predictions are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from training.metrics.counting import ACCURACY, ENTITY_F1, MLQA, SQUAD, Metric
from training.tasks import absa, conll, mlqa, paws_x, squad, tydiqa, universal_ner, wikiann, xnli, xquad
from training.tasks.files import FileRecords
from training.tasks.kinds import KINDS, Kind


def _row_of_lang(path: Path, lang: str) -> str:
    return lang


class Task(NamedTuple):
    """A benchmark. Adding one takes a module that reads its files, and a line in `TASKS`."""

    kind: Literal["qa", "tagging", "pairs"]
    read: Callable[[Path, str | None], FileRecords[Any]]  # a file's path and its language, if that is given
    metric: Metric
    langs: tuple[str, ...]  # in the order in which papers print them
    labels: tuple[str, ...] = ()  # the types of entities or targets, or the labels of pairs
    row: Callable[[Path, str], str] = _row_of_lang  # a gold file's path and language → the name of its row in reports
    premise_first: bool = False  # pairs: `sentence2` is the hypothesis
    label_names: Mapping[str, str] = {}  # pairs: label → its name in queries, if another (mPMR, table 6)

    @property
    def shared(self) -> Kind:
        """What the task shares with the others of its kind."""
        return KINDS[self.kind]


TASKS = {
    "squad": Task("qa", squad.read, SQUAD, squad.LANGS),
    "xquad": Task("qa", xquad.read, SQUAD, xquad.LANGS),
    "mlqa": Task("qa", mlqa.read, MLQA, mlqa.LANGS, row=mlqa.row),
    "tydiqa": Task("qa", tydiqa.read, SQUAD, tydiqa.LANGS),
    "wikiann": Task("tagging", wikiann.read, ENTITY_F1, wikiann.LANGS, wikiann.LABELS),
    "conll": Task("tagging", conll.read, ENTITY_F1, conll.LANGS, conll.LABELS),
    "universal_ner": Task(
        "tagging", universal_ner.read, ENTITY_F1, universal_ner.LANGS, universal_ner.LABELS, row=universal_ner.row
    ),
    "absa": Task("tagging", absa.read, ENTITY_F1, absa.LANGS, absa.LABELS),
    "paws_x": Task("pairs", paws_x.read, ACCURACY, paws_x.LANGS, paws_x.LABELS, label_names=paws_x.LABEL_NAMES),
    "xnli": Task("pairs", xnli.read, ACCURACY, xnli.LANGS, xnli.LABELS, premise_first=True),
}
