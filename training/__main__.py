"""`polyspan-train` from its first moment: Ctrl-C and SIGTERM give one line even while Python imports the rest."""

from __future__ import annotations

from schemas.runtime.interrupts import end_at_once


def main() -> None:
    """The console script."""
    end_at_once("polyspan-train")
    from training.cli import main as run

    run()


if __name__ == "__main__":
    main()
