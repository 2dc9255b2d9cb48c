"""Starts `polyspan-data`. Ctrl-C and SIGTERM give one line even while Python still imports the rest."""

from __future__ import annotations

from schemas.runtime.interrupts import end_at_once


def main() -> None:
    """Runs the console script."""
    end_at_once("polyspan-data")
    from pipelines.cli import main as run

    run()


if __name__ == "__main__":
    main()
