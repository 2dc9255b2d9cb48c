"""`polyspan-data` from its first moment: Ctrl-C and SIGTERM give one line even while Python imports the rest."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """The console script."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    from pipelines.cli import main as run

    run()


def _stop(number: int, _: object) -> None:
    os.write(2, b"polyspan-data: Stopped. Repeat the command.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
