"""The type of an option that names a task and has a default. Its help lists the tasks, imported only to show it."""

from __future__ import annotations

from typing import Annotated

import tyro


def _default_and_tasks(default: str) -> str:
    """Returns what `--help` adds to the option's own text."""
    from training.tasks.catalog import TASKS  # imports pyarrow and numpy

    return f"(default: {default}; tasks: {', '.join(TASKS)})"


OptionalTask = Annotated[str, tyro.conf.arg(metavar="TASK", help_behavior_hint=_default_and_tasks)]
