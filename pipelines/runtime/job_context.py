"""The context that every transform of a job gets."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.runtime.work_folder import WorkFolder
from pipelines.steps.common.ledger import Ledger
from schemas.counts import Counts

FILES_STAGE = "files"  # its summaries describe the input files


class JobContext(NamedTuple):
    """One run of a job: where it keeps what it finishes, and how it counts and samples."""

    work: WorkFolder
    seed: int
    rejects_per_reason: int
    counts: type[Counts]

    def ledger(self) -> Ledger:
        """Returns an empty ledger."""
        return Ledger(self.seed, self.rejects_per_reason)

    def ledger_of(self, stage: str, key: str) -> Ledger:
        """Returns the ledger that a finished step kept in its summary."""
        return Ledger.from_json(self.work.summary(stage, key), self.counts)
