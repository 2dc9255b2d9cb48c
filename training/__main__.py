"""Starts `polyspan-train`. Ctrl-C and SIGTERM print one line even while Python is importing."""

from __future__ import annotations

from schemas.runtime.interrupts import end_at_once


def main() -> None:
    """Runs the console script."""
    end_at_once("polyspan-train")
    from training.cli import main as run

    run()


if __name__ == "__main__":
    main()
