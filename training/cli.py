"""`polyspan-train`: trains models on the datasets that polyspan-data makes."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

try:
    import tyro
except ModuleNotFoundError:
    raise SystemExit(
        "polyspan-train needs libraries that are not installed: pip install 'polyspan[training]'"
    ) from None

from schemas.manifest import DatasetError
from training.errors import ConfigError, InputError, TrainingError
from training.logbook import FIGURES, LOST, duration
from training.recipes import ABOUT, RECIPES, PretrainConfig
from training.run_folder import check_config

USAGE = """usage: polyspan-train COMMAND [ARGUMENT ...]

commands:
  pretrain    dataset folders → a model that Hugging Face loads
  score       predictions and a benchmark's files → its figures, as its authors compute them

`polyspan-train COMMAND --help` tells the rest. On N GPUs: torchrun --nproc-per-node=N --no-python polyspan-train …
"""

PRETRAIN_USAGE = """usage: polyspan-train pretrain RECIPE --data FOLDER … --output FOLDER [OPTION …]

recipes:
{recipes}

`polyspan-train pretrain RECIPE --help` shows every field of a recipe; each can be given another value. Repeat a command
to go on with a run that was stopped.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Exit codes: 0 done, 1 the input or the training failed, 2 the arguments cannot work, 130 or
    143 stopped by Ctrl-C or SIGTERM, to go on later."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command, rest = pick(arguments, {"pretrain": pretrain, "score": score}, "command", USAGE)
        command(rest)
    except ConfigError as error:
        fail(str(error), 2)
    except (InputError, DatasetError, TrainingError) as error:
        fail(str(error), 1)
    except BrokenPipeError:  # `polyspan-train … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        fail("Stopped. Repeat the command to go on from the last checkpoint.", 130)


def pick(arguments: list[str], known: Mapping[str, Any], what: str, usage: str) -> tuple[Any, list[str]]:
    """What the first argument names, and the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage, end="")
        raise SystemExit(0 if arguments else 2)
    if arguments[0] not in known:
        close = difflib.get_close_matches(arguments[0], known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        fail(f"There is no {what} {arguments[0]!r}.{hint}\n\n{usage}", 2)
    return known[arguments[0]], arguments[1:]


def fail(message: str, code: int) -> NoReturn:
    print(f"polyspan-train: {message}", file=sys.stderr)
    raise SystemExit(code)


def pretrain(arguments: list[str]) -> None:
    """Train a model on dataset folders."""
    usage = PRETRAIN_USAGE.format(recipes="\n".join(f"  {name:<15} {about}" for name, about in ABOUT.items()))
    recipe, arguments = pick(arguments, RECIPES, "recipe", usage)
    config = tyro.cli(
        tyro.conf.configure(tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands)(PretrainConfig),
        prog=f"polyspan-train pretrain {recipe.name}",
        description=f"{recipe.name}: {ABOUT[recipe.name]}. The defaults below are the recipe's.",
        args=arguments,
        default=PretrainConfig(recipe=recipe),
    )
    check_config(config)
    try:
        quiet_libraries()
        from training.pretrain import pretrain as run  # torch takes seconds to import, --help should not
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed: pip install 'polyspan[training]'", 2)
    finished = run(config)
    if finished.stopped_by:
        code, left = 128 + finished.stopped_by, config.recipe.steps - finished.steps
        if not finished.first_rank:
            raise SystemExit(code)
        fail(f"Stopped after step {finished.steps:,}, with {left:,} to go. Repeat the command to go on.", code)
    if finished.first_rank:
        print(summary(config))


def score(arguments: list[str]) -> None:
    """Judge predictions."""
    from training.score import ScoreConfig
    from training.score import run as run_score

    print(run_score(tyro.cli(ScoreConfig, prog="polyspan-train score", args=arguments)), end="")


def quiet_libraries() -> None:
    """Progress bars of single files are no news."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns of our loader's processes
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
        f"In Python:   AutoModel.from_pretrained({str(folder / 'model')!r}), of transformers",
        f"The curves:  tensorboard --logdir {folder}",
        f"Every step:  {folder / 'metrics.jsonl'}",
    ]
    return "\n".join(lines)


def means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if all(name in row for row in rows)}


if __name__ == "__main__":
    main()
