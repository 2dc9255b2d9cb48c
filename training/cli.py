"""`polyspan-train`: trains models on the datasets that polyspan-data makes."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

try:
    import tyro
except ModuleNotFoundError as error:
    from schemas.runtime.command_line import WRONG_USE, answer_version
    from schemas.runtime.command_line import fail as end

    answer_version("polyspan-train", sys.argv[1:])
    end("polyspan-train", f"{error.name} is not installed: pip install 'polyspan[training]'", WRONG_USE)

from schemas.errors import ConfigError, InputError
from schemas.manifest import DatasetError, NotFoundError
from schemas.runtime import command_line
from schemas.runtime.command_line import EXIT_CODES, EXIT_CODES_LINE, FAILED, INTERRUPTED, TERMINATED, WRONG_USE
from schemas.runtime.output_folder import locked, needs_tidying, tidy
from training.engine.command_digest import finetune_command, pretrain_command
from training.engine.metrics_log import FIGURES, LOST, duration
from training.recipes.finetuning import FINETUNE_ABOUT, FINETUNE_RECIPES, FinetuneConfig
from training.recipes.pretraining import ABOUT, RECIPES, PretrainConfig
from training.runtime.errors import Terminated, TrainingError, in_words
from training.runtime.outputs import is_done, leftovers, nothing_to_do, run_files, tidy_run

if TYPE_CHECKING:
    from training.engine.run_setup import Finished

T = TypeVar("T")

USAGE = """usage: polyspan-train COMMAND [ARGUMENT ...]

commands:
  pretrain    dataset folders → a model that Hugging Face loads
  finetune    a model and a task's files → a model for that task
  evaluate    a fine-tuned model and a benchmark's files → its predictions and figures
  predict     a fine-tuned model and JSON lines → answers, entities or labels, with offsets
  few-shot    finetune and evaluate for every size, sample and model; a table and curves
  report      runs → one table, and a page with their curves
  score       predictions and a benchmark's files → its figures, as its authors compute them
  convert     a benchmark's files → a dataset folder of their records

From questions to a report; MODEL is a folder or a name on Hugging Face's hub, or `tiny`, to try things out:
  polyspan-train finetune plain_qa --model MODEL --train train-v1.1.json --output runs/qa
  polyspan-train evaluate runs/qa --task xquad --gold xquad.de.json xquad.hi.json
  polyspan-train predict runs/qa --input questions.jsonl
  polyspan-train report runs --output report

`polyspan-train COMMAND --help` tells the rest, `polyspan-train --version` what this is.
On N GPUs: torchrun --nproc-per-node=N --no-python polyspan-train …

"""
USAGE += EXIT_CODES

RECIPE_USAGE = """usage: polyspan-train {command} RECIPE {needs} --output FOLDER [OPTION …]

recipes:
{recipes}

`polyspan-train {command} RECIPE --help` shows every field of a recipe; each can be given another value{hint}.
Repeat a command to go on with a run that was stopped.

"""
RECIPE_USAGE += EXIT_CODES


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Exits with the codes of `schemas.runtime.command_line`."""
    is_script = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command_line.answer_version("polyspan-train", arguments)
    try:
        with signals_as_exceptions(), threads_that_fail_quietly():
            command, rest = pick(arguments, COMMANDS, "command", USAGE)
            command(rest)
        if is_script:  # what is left is the end of the interpreter and its libraries, a second or two
            ignore_signals()
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


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Inside, SIGTERM raises `Terminated` and Ctrl-C `KeyboardInterrupt`; a second one in the same second, as torchrun
    and terminals send them, is ignored. The training loop has its own handlers, which end the step first."""
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
    """Inside, a full disk in TensorBoard's thread prints no traceback: its writer raises the same error again."""
    usual = threading.excepthook

    def hook(of: threading.ExceptHookArgs) -> None:
        if of.exc_value is None or in_words(of.exc_value) is None:
            usual(of)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


def is_first_rank() -> bool:
    """Of those that torchrun has started."""
    return os.environ.get("RANK", "0") == "0"


def pick(arguments: list[str], known: Mapping[str, Any], what: str, usage: str) -> tuple[Any, list[str]]:
    """What the first argument names, and the other arguments."""
    return command_line.pick("polyspan-train", arguments, known, what, usage)


def fail(message: str, code: int) -> NoReturn:
    command_line.fail("polyspan-train", message, code)


def pretrain(arguments: list[str]) -> None:
    """Train a model on dataset folders."""
    config = recipe_config("pretrain", "--data FOLDER …", PretrainConfig, RECIPES, ABOUT, arguments)
    with training_libraries():
        from training.checks.pretraining import check, check_inputs

        check(config)
        check_inputs(config)
        if not config.overwrite and is_done(Path(config.output), pretrain_command(config)):
            nothing_left(config.output, lambda: summary(config))
            return
        from training.pretrain import pretrain as run  # torch takes seconds to import: wrong paths are told before
    if ended(run(config)):
        print(summary(config))


def finetune(arguments: list[str]) -> None:
    """Train a model on a task's files."""
    config = recipe_config("finetune", "--train FILE …", FinetuneConfig, FINETUNE_RECIPES, FINETUNE_ABOUT, arguments)
    with training_libraries():
        from training.checks.finetuning import check, check_inputs

        check(config)
        check_inputs(config)
        if not config.overwrite and is_done(Path(config.output), finetune_command(config)):
            nothing_left(config.output, lambda: finetune_summary(config))
            return
        from training.finetune import finetune as run
    if ended(run(config)):
        print(finetune_summary(config))


def nothing_left(output: str, told: Callable[[], str]) -> None:
    """Says that a run is complete, and clears away what a process left that was killed at its very end."""
    if is_first_rank():
        if leftovers(Path(output)) or needs_tidying(Path(output)):
            with locked(Path(output)):
                tidy(Path(output), run_files)
                tidy_run(Path(output))
        print(nothing_to_do(output), file=sys.stderr)
        print(told())


def recipe_config(
    command: str, needs: str, kind: type[T], recipes: Mapping[str, Any], about: Mapping[str, str], arguments: list[str]
) -> T:
    """The configuration of a command whose first argument names a recipe, whose fields are options."""
    width = max(map(len, about))
    told = "\n".join(f"  {name:<{width}}  {what}" for name, what in about.items())
    hint = ",\n--task (whose files they are) and --model (what to begin with) first" if command != "pretrain" else ""
    usage = RECIPE_USAGE.format(command=command, needs=needs, recipes=told, hint=hint)
    recipe, arguments = pick(arguments, recipes, "recipe", usage)
    return tyro.cli(
        tyro.conf.configure(tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands)(kind),
        prog=f"polyspan-train {command} {recipe.name}",
        description=f"{recipe.name}: {about[recipe.name]}. The defaults below are the recipe's. {EXIT_CODES_LINE}",
        args=arguments,
        default=cast(Any, kind)(recipe=recipe),
    )


def ended(finished: Finished) -> bool:
    """Whether a run has come to its end and this process speaks for all. Exits where a signal stopped it."""
    if finished.stopped_by:
        code = 128 + finished.stopped_by
        if not finished.first_rank:
            raise SystemExit(code)
        fail(f"Stopped after step {finished.steps:,}. Repeat the command to go on.", code)
    return finished.first_rank


def evaluate(arguments: list[str]) -> None:
    """Judge a model on a benchmark."""
    with training_libraries():
        from training.recipes.inference import EvaluateConfig

    config = plain_config("evaluate", EvaluateConfig, arguments)
    with training_libraries():
        from training.checks.inference import check_evaluate_inputs

        check_evaluate_inputs(config)
        from training.evaluate import run
    print(run(config), end="")


def predict(arguments: list[str]) -> None:
    """Ask a model."""
    with training_libraries():
        from training.recipes.inference import PredictConfig

    config = plain_config("predict", PredictConfig, arguments)
    with training_libraries():
        from training.checks.inference import check_predict_inputs

        check_predict_inputs(config)
        from training.predict import run
    exit_with(run(config))


def few_shot(arguments: list[str]) -> None:
    """Train on few examples, again and again."""
    with training_libraries():
        from training.few_shot import FewShotConfig, run

    needs = "--train FILE … --test FILE …"
    config = recipe_config("few-shot", needs, FewShotConfig, FINETUNE_RECIPES, FINETUNE_ABOUT, arguments)
    with training_libraries():
        exit_with(run(config))


def report(arguments: list[str]) -> None:
    """Compare runs."""
    with training_libraries():
        from training.report import ReportConfig, run

    print(run(plain_config("report", ReportConfig, arguments)), end="")


def score(arguments: list[str]) -> None:
    """Judge predictions."""
    with training_libraries():
        from training.recipes.scoring import ScoreConfig
        from training.score import run

    print(run(plain_config("score", ScoreConfig, arguments)), end="")


def convert(arguments: list[str]) -> None:
    """Store a benchmark's records as a dataset."""
    with training_libraries():
        from training.convert import ConvertConfig, run

    print(run(plain_config("convert", ConvertConfig, arguments)), end="")


def plain_config(command: str, kind: type[T], arguments: list[str]) -> T:
    """The configuration of a command that has no recipe."""
    return tyro.cli(
        tyro.conf.configure(tyro.conf.OmitArgPrefixes)(kind),
        prog=f"polyspan-train {command}",
        description=f"{cleandoc(kind.__doc__ or '')}\n\n{EXIT_CODES_LINE}",
        args=arguments,
    )


def exit_with(code: int) -> None:
    if code:
        raise SystemExit(code)


COMMANDS = {
    "pretrain": pretrain,
    "finetune": finetune,
    "evaluate": evaluate,
    "predict": predict,
    "few-shot": few_shot,
    "report": report,
    "score": score,
    "convert": convert,
}


@contextmanager
def training_libraries() -> Iterator[None]:
    """Around imports of torch and what needs it."""
    try:
        quiet_libraries()
        yield
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed: pip install 'polyspan[training]'", WRONG_USE)


def quiet_libraries() -> None:
    """Switches off transformers' progress bars of single files. Imports nothing: best called before transformers is."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns of our loader's processes
    if "transformers" in sys.modules:
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def summary(config: PretrainConfig) -> str:
    """What a finished run has come to, and what to do next."""
    folder = Path(config.output)
    with (folder / "metrics.jsonl").open(encoding="utf-8") as log:
        rows = [json.loads(line) for line in log]
    tenth = max(1, len(rows) // 10)
    first, last = means(rows[:tenth]), means(rows[-tenth:])
    lines = [
        f"Trained {config.recipe.name} for {len(rows):,} steps in {duration(sum(row['seconds'] for row in rows))}.",
        "",
        f"  {'':<24}{f'first {tenth} steps':>18}{f'last {tenth} steps':>18}",
        *(f"  {name:<24}{first[name]:>18.4g}{last[name]:>18.4g}" for name in first if name.startswith("loss")),
        *(f"  {label:<24}{first[name]:>18.1%}{last[name]:>18.1%}" for name, label in FIGURES.items() if name in first),
    ]
    for reason, what in LOST.items():
        if number := sum(row.get(f"lost/{reason}", 0) for row in rows):
            lines.append(
                f"  {what + ':':<60}{number:>12,.0f} of {sum(row['examples'] for row in rows):,.0f} examples read"
            )
    lines += [
        "",
        f"The model:   {folder / 'model'}",
        f"Fine-tune:   polyspan-train finetune RECIPE --model {shlex.quote(str(folder / 'model'))} --train FILE …",
        f"In Python:   AutoModel.from_pretrained({str(folder / 'model')!r}), of transformers",
        f"The curves:  tensorboard --logdir {folder}",
        f"Every step:  {folder / 'metrics.jsonl'}",
    ]
    return "\n".join(lines)


def finetune_summary(config: FinetuneConfig) -> str:
    """What a finished run has come to, and what to do next."""
    from training.inference.json_requests import LINE_FORMATS
    from training.tasks.catalog import TASKS

    folder = Path(config.output)
    evaluations = [json.loads(line) for line in lines_of(folder / "dev.jsonl")]
    rows = [json.loads(line) for line in lines_of(folder / "metrics.jsonl")]
    lines = [f"Fine-tuned {config.recipe.name} for {len(rows):,} steps in {duration(sum(x['seconds'] for x in rows))}."]
    if evaluations:
        best = max(evaluations, key=lambda row: (row["score"], -row["step"]))
        lines += ["", f"Best on the dev files after step {best['step']:,} of {evaluations[-1]['step']:,}:"]
        lines += [
            f"  {name:<32}" + "  ".join(f"{figure} {value:.2f}" for figure, value in of.items())
            for name, of in best["figures"].items()
        ]
    run, task = shlex.quote(str(folder)), config.dev_task or config.recipe.task
    lines += [
        "",
        f"The model:   {folder / 'model'}",
        f"Judge it:    polyspan-train evaluate {run} --task {task} --gold FILE …",
        f"Ask it:      echo {shlex.quote(LINE_FORMATS[TASKS[task].kind].example)} | polyspan-train predict {run}",
        f"Compare:     polyspan-train report {run} … --output FOLDER",
    ]
    return "\n".join(lines)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if all(name in row for row in rows)}


if __name__ == "__main__":
    main()
