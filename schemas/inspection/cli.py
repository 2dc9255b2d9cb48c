"""`polyspan-inspect`: shows a dataset, counts what it holds, checks that it is whole."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from schemas import manifest
from schemas.did_you_mean import did_you_mean
from schemas.errors import DatasetError, NotFoundError
from schemas.inspection.show import show_examples, show_rejects
from schemas.inspection.statistics import render_statistics, statistics
from schemas.runtime.command_line import DONE, EXIT_CODES, FAILED, INTERRUPTED, WRONG_USE, answer_version
from schemas.runtime.interrupts import ended_by_signals
from schemas.verification import find_problems


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if `verify` found problems or the dataset cannot be read, 2 if there is no dataset."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    answer_version("polyspan-inspect", arguments)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that are not UTF-8
        options = _parse(arguments)
        with ended_by_signals("polyspan-inspect", "It writes nothing: repeat the command."):
            code: int = options.run(options)
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # `polyspan-inspect show … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (DatasetError, OSError) as error:
        print(f"polyspan-inspect: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, NotFoundError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def show(options: argparse.Namespace) -> int:
    if options.rejects is not None:
        show_rejects(
            options.dataset,
            options.count,
            options.langs,
            sys.stdout,
            seed=options.seed,
            reason=options.rejects or None,
            record_id=options.id,
        )
        return DONE
    color = options.color == "always" or (
        options.color == "auto"
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
    show_examples(
        options.dataset,
        options.count,
        options.langs,
        sys.stdout,
        seed=options.seed,
        example_id=options.id,
        answerable=options.answerable,
        color=color,
    )
    return DONE


def stats(options: argparse.Namespace) -> int:
    numbers = statistics(options.dataset, options.langs)
    if options.json:
        print(json.dumps(numbers, indent=2, ensure_ascii=False))
    else:
        print(render_statistics(_name(options.dataset), numbers), end="")
    return DONE


def verify(options: argparse.Namespace) -> int:
    found = 0
    for problem in islice(find_problems(options.dataset, options.quick), options.limit or None):
        found += 1
        print(problem)
    if found:
        stopped = f" or more: stopped after {found}, --limit 0 lists all" if found == options.limit else ""
        print(f"{_name(options.dataset)}: {found} problem{'s' * (found > 1)}{stopped}")
        return FAILED
    index = manifest.load(options.dataset)
    looked = "rows not looked at" if options.quick else "every row keeps the contract"
    print(
        f"{_name(options.dataset)}: ok, {index.totals.size} in {len(index.shards)} shards; "
        f"sizes, checksums and counts agree, {looked}"
    )
    return DONE


def _name(dataset: str) -> str:
    return Path(dataset).resolve().name


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction["_Parser"]


class _Parser(argparse.ArgumentParser):
    """Says what may have been meant, and ends with exit code 2."""

    words: tuple[str, ...] = ()  # what a mistyped argument may have meant

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}\n{self.format_usage()}Try: {self.prog} --help\n")

    def refuse(self, what: str, word: str) -> NoReturn:
        self.error(f"there is no {what} {word!r}.{did_you_mean(word.partition('=')[0], self.words)}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="polyspan-inspect",
        description="Look at a dataset made by Polyspan, count what it holds, check that it is whole.",
        epilog="examples:\n"
        "  polyspan-inspect show clism-en-vi\n"
        "  polyspan-inspect show clism-en-vi --rejects no_mention\n"
        "  polyspan-inspect stats clism-en-vi --json\n"
        f"  polyspan-inspect verify clism-en-vi\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version, and the commit of a checkout")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    parsers = {"show": _add_show(commands), "stats": _add_stats(commands), "verify": _add_verify(commands)}
    parser.words = tuple(parsers)
    if arguments and arguments[0] not in parsers and not arguments[0].startswith("-"):
        parser.refuse("command", arguments[0])
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        chosen: _Parser = options.parser
        chosen.words = tuple(word for word in chosen.format_help().replace("[", " ").split() if word.startswith("--"))
        chosen.refuse("argument", unknown[0])
    return options


def _add_show(commands: _Commands) -> _Parser:
    parser = _add_command(
        commands,
        show,
        "show",
        "print examples with their answers marked",
        "examples:\n"
        "  polyspan-inspect show clism-en-vi --count 20 --pair en-vi\n"
        "  polyspan-inspect show wiki-sw --unanswerable\n"
        "  polyspan-inspect show clism-en-vi --id 8f14e45fceea167a5a36\n"
        "  polyspan-inspect show clism-en-vi --rejects            a sample of all refused records\n"
        "  polyspan-inspect show clism-en-vi --rejects no_link    a sample of those refused for this reason",
    )
    parser.add_argument(
        "--count", type=_natural, default=5, metavar="N", help="print at most N examples or rejects (default: 5)"
    )
    _add_langs(parser)
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the random choice of what is printed (default: 0)"
    )
    parser.add_argument(
        "--rejects", nargs="?", const="", metavar="REASON", help="print refused records, all or those with this reason"
    )
    kinds = parser.add_mutually_exclusive_group()
    for flag, value in (("--answerable", True), ("--unanswerable", False)):
        kinds.add_argument(
            flag, dest="answerable", action="store_const", const=value, help=f"print only {flag[2:]} examples"
        )
    parser.add_argument("--id", metavar="ID", help="print only the record with this id")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether to colour the marks; auto (default): only on a terminal",
    )
    return parser


def _add_stats(commands: _Commands) -> _Parser:
    parser = _add_command(
        commands,
        stats,
        "stats",
        "count what was read, kept and refused, and describe the examples in numbers",
        "example:\n  polyspan-inspect stats clism-en-vi --pair en-vi",
    )
    _add_langs(parser)
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    return parser


def _add_verify(commands: _Commands) -> _Parser:
    parser = _add_command(
        commands,
        verify,
        "verify",
        "check sizes, checksums and counts, and that every answer is where it should be",
        "example:\n  polyspan-inspect verify clism-en-vi",
    )
    parser.add_argument("--quick", action="store_true", help="check files and counts of the manifest, but not the rows")
    parser.add_argument(
        "--limit", type=_natural, default=20, metavar="N", help="stop after N problems, or never if 0 (default: 20)"
    )
    return parser


def _add_command(
    commands: _Commands, run: Callable[[argparse.Namespace], int], name: str, help: str, epilog: str
) -> _Parser:
    parser: _Parser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"{epilog}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument("dataset", metavar="DATASET", help="a dataset folder, which holds manifest.json")
    return parser


def _add_langs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pair",
        "--lang",
        dest="langs",
        metavar="LANG",
        help="use only this language pair, such as en-vi, or language, such as sw",
    )


def _natural(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, found {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
