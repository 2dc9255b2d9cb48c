"""The command line of `polyspan-train`: one table of commands, and how every command is run and ends.

Imports what the commands need only when they need it: torch takes seconds to import.
"""

from __future__ import annotations

import importlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Any, NoReturn

try:
    import tyro
except ModuleNotFoundError as error:
    from schemas.runtime.command_line import WRONG_USE, answer_version
    from schemas.runtime.command_line import fail as end

    answer_version("polyspan-train", sys.argv[1:])
    end("polyspan-train", f"{error.name} is not installed: pip install 'polyspan[training]'", WRONG_USE)

from schemas.errors import ConfigError, DatasetError, InputError, NotFoundError
from schemas.runtime import command_line
from schemas.runtime.command_line import EXIT_CODES, EXIT_CODES_LINE, FAILED, INTERRUPTED, TERMINATED, WRONG_USE
from schemas.runtime.output_folder import locked, needs_tidying, tidy
from training.engine.command_digest import finetune_command, pretrain_command
from training.recipes.finetuning import FINETUNE_ABOUT, FINETUNE_RECIPES
from training.recipes.pretraining import ABOUT, RECIPES
from training.runtime.errors import Terminated, TrainingError, in_words
from training.runtime.outputs import is_done, leftovers, nothing_to_do, run_files, tidy_run

USAGE = """usage: polyspan-train COMMAND [ARGUMENT ...]

commands:
{commands}

From questions to a report; MODEL is a folder, a name on Hugging Face's hub or, for trials, `tiny`:
  polyspan-train finetune plain_qa --model MODEL --train train-v1.1.json --output runs/qa
  polyspan-train evaluate runs/qa --task xquad --gold xquad.de.json xquad.hi.json
  polyspan-train predict runs/qa --input questions.jsonl
  polyspan-train report runs --output report

`polyspan-train COMMAND --help` describes a command, `polyspan-train --version` prints the version.
On N GPUs: torchrun --nproc-per-node=N --no-python polyspan-train …

"""
USAGE += EXIT_CODES

RECIPE_USAGE = """usage: polyspan-train {command} RECIPE {needs} --output FOLDER [OPTION …]

recipes:
{recipes}

`polyspan-train {command} RECIPE --help` lists the settings of a recipe; each is an option{hint}.
Repeat a command to go on with a run that was stopped.

"""
RECIPE_USAGE += EXIT_CODES


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line. Exits with the codes of `schemas.runtime.command_line`."""
    is_script = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command_line.answer_version("polyspan-train", arguments)
    try:
        with signals_as_exceptions(), threads_that_fail_quietly():
            name, rest = pick(arguments, {name: name for name in COMMANDS}, "command", usage())
            execute(name, rest)
        if is_script:  # the interpreter and its libraries take another second or two to end
            ignore_signals()
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed: pip install 'polyspan[training]'", WRONG_USE)
    except (ConfigError, NotFoundError) as error:
        fail(str(error), WRONG_USE)
    except (InputError, DatasetError, TrainingError) as error:
        fail(str(error), FAILED)
    except BrokenPipeError:  # `polyspan-train … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as error:
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        if not is_first_rank():
            raise SystemExit(code) from None
        fail("Stopped. Repeat the command: training goes on from its last checkpoint, all else begins anew.", code)
    except Exception as error:
        if (words := in_words(error)) is None:
            raise
        fail(words, FAILED)


def usage() -> str:
    return USAGE.format(commands="\n".join(f"  {name:<19}{command.about}" for name, command in COMMANDS.items()))


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Makes SIGTERM raise `Terminated` and Ctrl-C `KeyboardInterrupt` inside the block.

    Ignores a second signal in the same second, as torchrun and terminals send it. The training loop has its own
    handlers, which end the step first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    last = -math.inf

    def interrupt(number: int, _: Any) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > 1.0:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def threads_that_fail_quietly() -> Iterator[None]:
    """Prints no traceback inside the block when TensorBoard's thread meets a full disk: its writer raises the same
    error again."""
    usual = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is None or in_words(arguments.exc_value) is None:
            usual(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


def is_first_rank() -> bool:
    """Returns whether this is the first of the processes that torchrun has started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def pick(arguments: list[str], choices: Mapping[str, Any], what: str, usage: str) -> tuple[Any, list[str]]:
    """Returns the choice that the first argument names, and the other arguments."""
    return command_line.pick("polyspan-train", arguments, choices, what, usage)


def fail(message: str, code: int) -> NoReturn:
    command_line.fail("polyspan-train", message, code)


# --- one command ------------------------------------------------------------------------------------------------------


def execute(name: str, arguments: list[str]) -> None:
    """Runs a command: parses its options, checks them before torch is imported, runs it and ends it."""
    quiet_libraries()
    command = COMMANDS[name]
    config = parsed(name, command, arguments)
    for check in command.checks:
        imported(check)(config)
    if command.digest and not config.overwrite and is_done(Path(config.output), command.digest(config)):
        end_complete_run(config)
    else:
        command.finish(config, imported(command.run)(config))


def imported(name: str) -> Any:
    """Imports what `module:attribute` names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def parsed(name: str, command: Command, arguments: list[str]) -> Any:
    """Returns the command's configuration. Prints its help and exits if that is asked for."""
    kind = imported(command.config)
    if command.recipes is None:
        return tyro.cli(
            tyro.conf.configure(tyro.conf.OmitArgPrefixes)(kind),
            prog=f"polyspan-train {name}",
            description=f"{cleandoc(kind.__doc__ or '')}\n\n{EXIT_CODES_LINE}",
            args=arguments,
        )
    recipe, arguments = pick(arguments, command.recipes.recipes, "recipe", recipe_usage(name, command.recipes))
    about = command.recipes.about[recipe.name]
    return tyro.cli(
        tyro.conf.configure(tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands)(kind),
        prog=f"polyspan-train {name} {recipe.name}",
        description=f"{recipe.name}: {about}. The defaults below are the recipe's. {EXIT_CODES_LINE}",
        args=arguments,
        default=kind(recipe=recipe),
    )


def recipe_usage(name: str, recipes: Recipes) -> str:
    width = max(map(len, recipes.about))
    lines = "\n".join(f"  {recipe:<{width}}  {about}" for recipe, about in recipes.about.items())
    return RECIPE_USAGE.format(command=name, needs=recipes.needs, recipes=lines, hint=recipes.hint)


def end_complete_run(config: Any) -> None:
    """Reports that a run is complete, and deletes what a process left that was killed at its very end."""
    if is_first_rank():
        output = Path(config.output)
        if leftovers(output) or needs_tidying(output):
            with locked(output):
                tidy(output, run_files)
                tidy_run(output)
        print(nothing_to_do(config.output), file=sys.stderr)
        print(imported(SUMMARY)(config))


def end_run(config: Any, finished: Any) -> None:
    """Ends a training command: prints the summary of a finished run, or exits if a signal stopped it."""
    if finished.stopped_by:
        code = 128 + finished.stopped_by
        if not finished.first_rank:
            raise SystemExit(code)
        fail(f"Stopped after step {finished.steps:,}. Repeat the command to go on.", code)
    if finished.first_rank:
        print(imported(SUMMARY)(config))


def print_text(config: Any, text: str) -> None:
    print(text, end="")


def exit_with(config: Any, code: int) -> None:
    if code:
        raise SystemExit(code)


# --- the commands -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipes:
    """The recipes of a command, whose first argument names one of them."""

    recipes: Mapping[str, Any]
    about: Mapping[str, str]  # recipe → one line of the usage
    needs: str  # options that every run needs, for the usage
    hint: str = ""  # the most important options, for the usage


@dataclass(frozen=True)
class Command:
    """A command of `polyspan-train`. Names of the form `module:attribute` are imported when they are needed."""

    about: str  # its line in the usage
    config: str  # the dataclass of its options
    run: str  # takes the configuration
    finish: Callable[[Any, Any], None]  # takes the configuration and what `run` returned
    checks: tuple[str, ...] = ()  # take the configuration and raise before torch is imported
    recipes: Recipes | None = None
    digest: Callable[[Any], str] | None = None  # of commands that train: the digest in a complete run.json


SUMMARY = "training.reports.summary:summary"
TASK_AND_MODEL = ",\nfor instance --task (the benchmark of the files of --train) and --model (the model to start from)"
COMMANDS = {
    "pretrain": Command(
        "dataset folders → a model that Hugging Face loads",
        "training.recipes.pretraining:PretrainConfig",
        "training.pretrain:pretrain",
        end_run,
        ("training.checks.pretraining:check", "training.checks.pretraining:check_inputs"),
        Recipes(RECIPES, ABOUT, "--data FOLDER …"),
        pretrain_command,
    ),
    "finetune": Command(
        "a model and a task's files → a model for that task",
        "training.recipes.finetuning:FinetuneConfig",
        "training.finetune:finetune",
        end_run,
        ("training.checks.finetuning:check", "training.checks.finetuning:check_inputs"),
        Recipes(FINETUNE_RECIPES, FINETUNE_ABOUT, "--train FILE …", TASK_AND_MODEL),
        finetune_command,
    ),
    "evaluate": Command(
        "a fine-tuned model and a benchmark's files → its predictions and figures",
        "training.recipes.inference:EvaluateConfig",
        "training.evaluate:run",
        print_text,
        ("training.checks.inference:check_evaluate_inputs",),
    ),
    "predict": Command(
        "a fine-tuned model and JSON lines → answers, entities or labels, with offsets",
        "training.recipes.inference:PredictConfig",
        "training.predict:run",
        exit_with,
        ("training.checks.inference:check_predict_inputs",),
    ),
    "few-shot": Command(
        "finetune and evaluate for every size, sample and model; a table and curves",
        "training.recipes.few_shot:FewShotConfig",
        "training.few_shot:run",
        exit_with,
        recipes=Recipes(FINETUNE_RECIPES, FINETUNE_ABOUT, "--train FILE … --test FILE …", TASK_AND_MODEL),
    ),
    "benchmark": Command(
        "a suite of methods × tasks × languages × seeds: finetune, evaluate, a paper's tables",
        "training.recipes.suites:BenchmarkConfig",
        "training.benchmark:run",
        exit_with,
    ),
    "report": Command(
        "runs → one table, and a page with their curves",
        "training.report:ReportConfig",
        "training.report:run",
        print_text,
    ),
    "compare-languages": Command(
        "models and the same records in several languages → how similar their representations are",
        "training.recipes.language_comparison:LanguageComparisonConfig",
        "training.compare_languages:run",
        print_text,
        ("training.checks.language_comparison:check_comparison",),
    ),
    "score": Command(
        "predictions and a benchmark's files → its figures, as its authors compute them",
        "training.recipes.scoring:ScoreConfig",
        "training.score:run",
        print_text,
    ),
    "convert": Command(
        "a benchmark's files → a dataset folder of their records",
        "training.convert:ConvertConfig",
        "training.convert:run",
        print_text,
    ),
    "translate": Command(
        "a translation model and a task's files → translated records with their labels",
        "training.recipes.translate:TranslateConfig",
        "training.translate:run",
        print_text,
        ("training.checks.translate:check_inputs",),
    ),
}


def quiet_libraries() -> None:
    """Switches off transformers' progress bars for single files. Imports nothing; call it before transformers is
    imported."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns about the loader's processes
    if "transformers" in sys.modules:
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
