"""`polyspan-inspect`: look at a dataset, count what it holds, check that it is whole."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from schemas import manifest
from schemas.did_you_mean import did_you_mean
from schemas.inspection.show import show_examples, show_rejects
from schemas.inspection.statistics import render_statistics, statistics
from schemas.manifest import DatasetError, NotFoundError
from schemas.runtime.command_line import DONE, EXIT_CODES, FAILED, INTERRUPTED, WRONG_USE, answer_version
from schemas.runtime.interrupts import ended_by_signals
from schemas.verification import find_problems


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if `verify` found problems or the dataset cannot be read, 2 if there is none."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    answer_version("polyspan-inspect", arguments)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 still shows the rest
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
        description="Look at a dataset of polyspan's, count what it holds, check that it is whole.",
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

    def command(run: object, name: str, help: str, epilog: str) -> _Parser:
        added: _Parser = commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}.",
            epilog=f"{epilog}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(run=run, parser=added)
        added.add_argument("dataset", metavar="DATASET", help="a dataset folder: the one that holds manifest.json")
        return added

    showing = command(
        show,
        "show",
        "print examples with their answers marked",
        "examples:\n"
        "  polyspan-inspect show clism-en-vi --count 20 --pair en-vi\n"
        "  polyspan-inspect show wiki-sw --unanswerable\n"
        "  polyspan-inspect show clism-en-vi --id 8f14e45fceea167a5a36\n"
        "  polyspan-inspect show clism-en-vi --rejects            a sample of everything that was left out\n"
        "  polyspan-inspect show clism-en-vi --rejects no_link    … for this reason",
    )
    showing.add_argument("--count", type=_natural, default=5, metavar="N", help="how many (default: 5)")
    _add_langs(showing)
    showing.add_argument("--seed", type=int, default=0, metavar="N", help="another number shows others (default: 0)")
    showing.add_argument(
        "--rejects", nargs="?", const="", metavar="REASON", help="what was left out, for this or for any reason"
    )
    kinds = showing.add_mutually_exclusive_group()
    for flag, value in (("--answerable", True), ("--unanswerable", False)):
        kinds.add_argument(flag, dest="answerable", action="store_const", const=value, help=f"only {flag[2:]} examples")
    showing.add_argument("--id", metavar="ID", help="only the record with this id")
    showing.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto (default): on a terminal"
    )

    counting = command(
        stats,
        "stats",
        "count what was read, kept and left out, and tell what the examples are like",
        "example:\n  polyspan-inspect stats clism-en-vi --pair en-vi",
    )
    _add_langs(counting)
    counting.add_argument("--json", action="store_true", help="for machines")

    checking = command(
        verify,
        "verify",
        "check sizes, checksums, counts, and that every answer is in its place",
        "example:\n  polyspan-inspect verify clism-en-vi",
    )
    checking.add_argument("--quick", action="store_true", help="do not look at rows")
    checking.add_argument(
        "--limit", type=_natural, default=20, metavar="N", help="stop after N problems; 0: never (default: 20)"
    )

    parsers = {"show": showing, "stats": counting, "verify": checking}
    parser.words = tuple(parsers)
    for each in parsers.values():
        each.words = tuple(word for word in each.format_help().replace("[", " ").split() if word.startswith("--"))
    if arguments and arguments[0] not in parsers and not arguments[0].startswith("-"):
        parser.refuse("command", arguments[0])
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.refuse("argument", unknown[0])
    return options


def _add_langs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pair", "--lang", dest="langs", metavar="LANG", help="only this language pair, as en-vi, or language, as sw"
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
