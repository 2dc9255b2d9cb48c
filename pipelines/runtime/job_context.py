"""What every transform of a job needs to know of the run."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.runtime.work_folder import WorkFolder
from pipelines.steps.common.ledger import Ledger
from schemas.counts import Counts

FILES = "files"  # the stage whose summaries tell of the input files


class JobContext(NamedTuple):
    work: WorkFolder
    seed: int
    rejects_per_reason: int
    counts: type[Counts]

    def ledger(self) -> Ledger:
        return Ledger(self.seed, self.rejects_per_reason)

    def ledger_of(self, stage: str, key: str) -> Ledger:
        """What a finished step kept of the records that it counted."""
        return Ledger.from_json(self.work.summary(stage, key), self.counts)
