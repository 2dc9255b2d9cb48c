"""`polyspan-data`: makes datasets. Our arguments come first, then `--`, then those of the Beam runner."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files as package_files
from inspect import cleandoc
from typing import Annotated, Any, NoReturn, TypeVar

try:
    import tyro

    from pipelines.align import commands as align_commands
    from pipelines.align import config as align_configs
    from pipelines.fetch import wikipedia as downloads
    from pipelines.inputs import anchor_mrc_inputs, clism_inputs
    from pipelines.recipes import ANCHOR_MRC_RECIPES, CLISM_RECIPES, AnchorMrcConfig, ClismConfig
    from pipelines.runtime.logs import log_for_people
    from pipelines.steps.anchor_mrc.triplets import TripletConfig
    from schemas.errors import ConfigError, InputError
except ModuleNotFoundError as error:
    from schemas.runtime.command_line import WRONG_USE, answer_version
    from schemas.runtime.command_line import fail as end

    answer_version("polyspan-data", sys.argv[1:])
    end("polyspan-data", f"{error.name} is not installed: pip install 'polyspan[pipelines]'", WRONG_USE)

from schemas.counts import Counts, in_words
from schemas.did_you_mean import did_you_mean
from schemas.errors import DatasetError, OutputError, RunnerError, os_error_in_words
from schemas.manifest import Manifest
from schemas.runtime import command_line
from schemas.runtime.command_line import EXIT_CODES, EXIT_CODES_LINE, FAILED, INTERRUPTED, WRONG_USE
from schemas.runtime.interrupts import ended_by_signals

USAGE = """usage: polyspan-data COMMAND [ARGUMENT ...] [-- RUNNER-ARGUMENT ...]

commands:
{commands}

`polyspan-data COMMAND --help` describes the rest, `polyspan-data --version` prints the version. Arguments after `--` go
to the Beam runner, for instance `-- --runner=FlinkRunner --flink_master=HOST:8081`; without them the job runs on this
machine.

"""

ALIGN_USAGE = """usage: polyspan-data align COMMAND [ARGUMENT ...]
       polyspan-data align FILE [ARGUMENT ...]

With a FILE (- is the standard input) of lines `source ||| target`, words separated by white space: trains on the lines
and writes a line of links `0-0 1-2` for each. `polyspan-data align run --help` describes its options. Step by step:

commands:
{commands}

`polyspan-data align COMMAND --help` describes the rest.

"""

FETCH_USAGE = """usage: polyspan-data fetch COMMAND [ARGUMENT ...]

commands:
{commands}

`polyspan-data fetch COMMAND --help` describes the rest.

"""

STOPPED = "Repeat the command to go on from what is finished."
STOPPED_ALIGNING = "Nothing is kept of an unfinished file."

Command = Callable[[list[str], list[str]], None]
Config = TypeVar("Config", ClismConfig, AnchorMrcConfig)
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the console script. Exits with the codes of `schemas.runtime.command_line`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    ours, runner = split_at_dashes(arguments)
    command_line.answer_version("polyspan-data", ours)
    command, ours = pick_command(ours, COMMANDS, USAGE)
    log_for_people()
    try:
        with ended_by_signals("polyspan-data", STOPPED_ALIGNING if command is align else STOPPED):
            command(ours, runner)
    except ConfigError as error:
        fail(str(error), WRONG_USE)
    except (InputError, OutputError, RunnerError, DatasetError) as error:
        fail(str(error), FAILED)
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed: pip install 'polyspan[pipelines]'", WRONG_USE)
    except BrokenPipeError:  # `polyspan-data … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if words := os_error_in_words(error):
            fail(words, FAILED)
        raise
    except KeyboardInterrupt:
        fail(f"Stopped. {STOPPED}", INTERRUPTED)


def pick_command(arguments: list[str], commands: Mapping[str, Command], usage: str) -> tuple[Command, list[str]]:
    """Returns the command that the first argument names, and the other arguments.

    The usage lists each command with the first line of its docstring.
    """
    width = max(map(len, commands))
    listed = [f"  {name:{width}}  {cleandoc(run.__doc__ or '').partition('.')[0]}" for name, run in commands.items()]
    usage = usage.format(commands="\n".join(listed)) + EXIT_CODES
    return command_line.pick("polyspan-data", arguments, commands, "command", usage)


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def fail(message: str, code: int) -> NoReturn:
    command_line.fail("polyspan-data", message, code)


def clism(arguments: list[str], runner: list[str]) -> None:
    """Turn parallel corpora into CLISM [QUE] examples."""
    config = configured(arguments, "polyspan-data clism", clism.__doc__, CLISM_RECIPES)
    clism_inputs(config)
    from pipelines.clism import run  # Beam takes seconds to import: wrong paths are reported before

    print(summary(run(config, runner), config.output))


def anchor_mrc(arguments: list[str], runner: list[str]) -> None:
    """Turn Wikipedia dumps into (query, context, answers) triplets: anchor MRC, as in mPMR."""
    config = configured(arguments, "polyspan-data anchor-mrc", anchor_mrc.__doc__, ANCHOR_MRC_RECIPES)
    anchor_mrc_inputs(config)
    from pipelines.anchor_mrc import damage, run

    manifests = run(config, runner)
    print("\n\n".join(summary(manifest, output) for output, manifest in manifests.items()))
    damaged = {output: found for output, manifest in manifests.items() if (found := damage(manifest))}
    for output, found in damaged.items():
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in found.items())
        print(
            f"\nParts of the dumps could not be read ({reasons}); {output} holds what could. Where they are: "
            f"polyspan-inspect show {output} --rejects",
            file=sys.stderr,
        )
    if damaged and not config.tolerate_damage:
        fail("A dump is damaged: fetch it again, or take what could be read with --tolerate-damage.", FAILED)


def configured(arguments: list[str], prog: str, what: str | None, recipes: Mapping[str, Config]) -> Config:
    """Returns a recipe's configuration, changed by the arguments. The first recipe is the default."""
    recipe, arguments = pick_recipe(arguments, recipes)
    return tyro.cli(
        type(recipes[recipe]),
        prog=prog,
        description=(
            f"{what} --recipe NAME starts from a named configuration ({', '.join(recipes)}); "
            f"the defaults below are the recipe's. {EXIT_CODES_LINE}"
        ),
        args=arguments,
        default=recipes[recipe],
    )


def pick_recipe(arguments: list[str], recipes: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns the value of --recipe, and the other arguments."""
    rest, recipe = [], next(iter(recipes))
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--recipe" or argument.startswith("--recipe="):
            recipe = argument.partition("=")[2] or next(remaining, "")
        else:
            rest.append(argument)
    if recipe not in recipes:
        hint = did_you_mean(recipe, recipes)
        raise ConfigError(f"There is no recipe {recipe!r}; there are: {', '.join(recipes)}.{hint}")
    return recipe, rest


def demo(arguments: list[str], runner: list[str]) -> None:
    """Make CLISM examples and anchor-MRC triplets from samples in the package, and show some."""

    def options(
        output: Annotated[
            str,
            tyro.conf.arg(help="The folder for the two datasets; those of another demo are replaced."),
        ],
        count: Annotated[int, tyro.conf.arg(help="How many examples of each language to show.")] = 3,
    ) -> tuple[str, int]:
        return output, count

    output, count = tyro.cli(
        options, prog="polyspan-data demo", description=f"{demo.__doc__} {EXIT_CODES_LINE}", args=arguments
    )
    from pipelines import anchor_mrc, clism
    from schemas.inspection.show import show_examples

    sample = package_files("pipelines") / "sample"
    questions = ClismConfig(
        bitext=(str(sample / "sample.tsv"),),
        pair=("en-ar", "en-hi", "en-vi"),
        output=f"{output}/clism",
        overwrite=True,
    )
    triplets = AnchorMrcConfig(
        dump=(f"{sample}/wiki/{{lang}}wiki-sample.xml",),
        lang=("ar", "en", "hi", "ja", "vi"),
        triplets=TripletConfig(context_words=40, query_words=30, min_mentions=2),
        output=f"{output}/anchor-mrc",
        overwrite=True,
    )
    manifests = {questions.output: clism.run(questions, runner)} | anchor_mrc.run(triplets, runner)
    for folder, langs in ((questions.output, questions.pair), (triplets.output, triplets.lang)):
        for lang in langs:
            show_examples(folder, count=count, langs=lang, stream=sys.stdout)
            print()
    print("\n\n".join(summary(manifest, folder) for folder, manifest in manifests.items()))


def fetch(arguments: list[str], runner: list[str]) -> None:
    """Download Wikipedia dumps, resume stopped downloads, verify checksums."""
    command, arguments = pick_command(arguments, FETCH_COMMANDS, FETCH_USAGE)
    if runner:
        raise ConfigError(f"polyspan-data fetch runs on this machine: nothing takes {runner[0]!r} after `--`.")
    command(arguments, runner)


def fetch_wikipedia(arguments: list[str], _: list[str]) -> None:
    """Download the dumps that `polyspan-data anchor-mrc` reads, from Wikimedia or a mirror."""
    config = plain_config(downloads.FetchConfig, "fetch wikipedia", arguments)
    print(downloads.fetch_wikipedia(config))


def align(arguments: list[str], runner: list[str]) -> None:
    """Link the words of a file; or train a word aligner, apply it, score links against gold ones."""
    if arguments and arguments[0] not in (*ALIGN_COMMANDS, "-h", "--help", "help") and _names_input(arguments[0]):
        arguments = ["run", *arguments]
    command, arguments = pick_command(arguments, ALIGN_COMMANDS, ALIGN_USAGE)
    if runner:
        raise ConfigError(f"polyspan-data align runs on this machine: nothing takes {runner[0]!r} after `--`.")
    command(arguments, runner)


def align_train(arguments: list[str], _: list[str]) -> None:
    """Train a word aligner's model on parallel corpora."""
    print(align_commands.train(plain_config(align_configs.AlignTrainConfig, "align train", arguments)))


def align_apply(arguments: list[str], _: list[str]) -> None:
    """Link the words of sentence pairs with a model: a line `0-0 1-2` for each pair."""
    align_commands.apply(plain_config(align_configs.AlignApplyConfig, "align apply", arguments))


def _names_input(argument: str) -> bool:
    """Returns whether the argument is a file, the standard input or an option, and so no command."""
    return argument.startswith("-") or any(mark in argument for mark in "/.*") or os.path.exists(argument)


def align_run(arguments: list[str], _: list[str]) -> None:
    """Do what `align FILE` does, also for a file that has a command's name."""
    align_commands.align_file(tyro.cli(align_configs.AlignFileConfig, prog="polyspan-data align run", args=arguments))


def align_score(arguments: list[str], _: list[str]) -> None:
    """Compare links with gold ones: alignment error rate, precision, recall."""
    print(align_commands.score(plain_config(align_configs.AlignScoreConfig, "align score", arguments)))


def plain_config(kind: type[T], command: str, arguments: list[str]) -> T:
    """Returns the configuration of a command that has no recipe."""
    prog, description = f"polyspan-data {command}", f"{cleandoc(kind.__doc__ or '')}\n\n{EXIT_CODES_LINE}"
    return tyro.cli(kind, prog=prog, description=description, args=arguments)


def summary(manifest: Manifest, output: str) -> str:
    """Describes what became of every record, by language or pair, and what to do next."""
    lines = []
    for pair, counts in sorted(manifest.counts.items()):
        lines += [f"{pair}:", *ledger_lines(counts), ""]
    rows, size = manifest.totals.examples, sum(shard.bytes for shard in manifest.shards)
    lines.append(
        f"{output}/data holds {rows:,} examples ({len(manifest.shards)} Arrow shard"
        f"{'s' if len(manifest.shards) > 1 else ''}, {size / 1e6:.1f} MB)."
    )
    if not rows:
        lines.append("No example came out: read why with the second command below.")
    lines += [
        f"Look at them:      polyspan-inspect show {output}",
        f"Read the rejects:  polyspan-inspect show {output} --rejects",
        f"In pandas:         pandas.read_feather({output + '/' + manifest.shards[0].file!r})",
    ]
    return "\n".join(lines)


def ledger_lines(counts: Counts) -> list[str]:
    """Describes each ledger in a line: the records found are the kept ones and the refused ones.

    >>> from schemas.clism import PairCounts
    >>> for line in ledger_lines(PairCounts(10, 7, {"no_mention": 3}, 12, 10, {"no_link": 2})):
    ...     print(line)
      10 sentence pairs read = 7 examples + 3 refused (no_mention 3)
      12 mentions found = 10 questions + 2 refused (no_link 2)
    """
    lines = []
    for unit, found, kept, refused in counts.BALANCES:
        rejects: dict[str, int] = getattr(counts, refused)
        what = f"sentence {in_words(found)}" if unit == "pair" else in_words(found)
        by_size = sorted(rejects.items(), key=lambda item: (-item[1], item[0]))
        reasons = f" ({', '.join(f'{reason} {number:,}' for reason, number in by_size)})" if rejects else ""
        lines.append(
            f"  {getattr(counts, found):,} {what} = {getattr(counts, kept):,} {in_words(kept)} + "
            f"{sum(rejects.values()):,} refused{reasons}"
        )
    return lines


COMMANDS: dict[str, Command] = {
    "clism": clism,
    "anchor-mrc": anchor_mrc,
    "fetch": fetch,
    "align": align,
    "demo": demo,
}
FETCH_COMMANDS: dict[str, Command] = {"wikipedia": fetch_wikipedia}
ALIGN_COMMANDS: dict[str, Command] = {
    "train": align_train,
    "apply": align_apply,
    "score": align_score,
    "run": align_run,
}


if __name__ == "__main__":
    main()
