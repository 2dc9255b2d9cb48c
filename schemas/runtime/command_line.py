"""What the three commands have in common: exit codes, --version and the choice of a subcommand."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeVar

from schemas.did_you_mean import did_you_mean
from schemas.provenance import version_line

DONE, FAILED, WRONG_USE = 0, 1, 2
INTERRUPTED, TERMINATED = 130, 143  # 128 + the number of the signal, as in shells

EXIT_CODES = """exit codes:
  0         done
  1         the data cannot be used, or the run failed
  2         the command line cannot work: an unknown option, a path that does not exist, settings that contradict
  130, 143  stopped by Ctrl-C or by SIGTERM
"""
"""The end of the help of commands that have subcommands."""

EXIT_CODES_LINE = "Exit codes: 0 done, 1 data or run failed, 2 wrong use, 130 or 143 stopped by Ctrl-C or SIGTERM."
"""The end of the help of one command."""

T = TypeVar("T")


def fail(program: str, message: str, code: int) -> NoReturn:
    """Ends the process with an error on stderr."""
    print(f"{program}: {message}", file=sys.stderr)
    raise SystemExit(code)


def pick(program: str, arguments: list[str], known: Mapping[str, T], what: str, usage: str) -> tuple[T, list[str]]:
    """Returns what the first argument names, and the other arguments. Prints the usage and exits for --help."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage, end="")
        raise SystemExit(DONE if arguments else WRONG_USE)
    if arguments[0] not in known:
        hint = did_you_mean(arguments[0], known)
        fail(program, f"There is no {what} {arguments[0]!r}.{hint}\n\n{usage}", WRONG_USE)
    return known[arguments[0]], arguments[1:]


def answer_version(program: str, arguments: Sequence[str]) -> None:
    """Prints version and commit and exits, if --version is among the arguments or -V is the first."""
    if "--version" in arguments or arguments[:1] in (["-V"], ("-V",)):
        print(version_line(program))
        raise SystemExit(DONE)
