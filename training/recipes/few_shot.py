"""What `polyspan-train few-shot` is asked for, and the runs that it makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.inference import Computing, EvaluateConfig
from training.recipes.scoring import Reporting


@dataclass(frozen=True)
class FewShotConfig:
    """Fine-tunes every model on training sets of every size, several sets of each size, and evaluates each run."""

    recipe: FinetuneRecipe
    train: tuple[Path, ...] = ()
    """Files as the task's authors or XTREME publish them, or dataset folders, to draw the examples from."""
    train_langs: tuple[str, ...] = ()
    """One language for each file of --train, in their order, for files whose names do not say it."""
    test: tuple[Path, ...] = ()
    """Files with labels, on which every fine-tuned model is evaluated."""
    test_langs: tuple[str, ...] = ()
    """One language for each file of --test, in their order, for files whose names do not say it."""
    test_task: str = ""
    """The benchmark whose files --test names, such as mlqa, if it is not that of --train. Empty: the same."""
    translations: tuple[Path, ...] = ()
    """For a method that reads translations, such as filter: those of the records of --train, as for `finetune`."""
    test_translations: tuple[Path, ...] = ()
    """Those of the records of --test, as for `evaluate`. A record without one is read beside itself."""
    models: tuple[str, ...] = ()
    """The models to fine-tune, one after the other: folders or names on the hub. None: the recipe's --model."""
    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """Numbers of training examples (CLISM, appendix C)."""
    resamples: int = 5
    """Number of training sets of each size, drawn at random as samples 1, 2, … (CLISM, appendix C)."""
    output: str = ""
    """The folder to write. Repeat a command to go on where it was stopped, or to try again what failed; models, sizes
    and samples may be added."""
    overwrite: bool = False
    """Begin anew. A series in the output folder stays until the new one, made in `.NAME.new` beside it, is complete and
    takes its place."""
    keep_models: bool = False
    """Keep the models of every run, gigabytes each. Otherwise only its scores, predictions and logs stay."""
    format: Literal["text", "markdown", "latex"] = "text"
    """The format of the table that is printed."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that computes. auto: a GPU if there is one, else the CPU."""
    micro_batch_tokens: int | None = None
    """Approximate maximum of tokens that go through the encoder at once; 0 takes the whole batch. Smaller values take
    less memory and more time. None takes 1,024 on a CPU and 0 on a GPU."""


class Try(NamedTuple):
    """One run of the series."""

    model: str
    size: int
    sample: int

    def __str__(self) -> str:
        return f"{self.model}, {self.size:,} examples, sample {self.sample}"


def test_task(config: FewShotConfig) -> str:
    return config.test_task or config.recipe.task


def models_of(config: FewShotConfig) -> tuple[str, ...]:
    return config.models or (config.recipe.model,)


def tries_of(config: FewShotConfig) -> Iterator[Try]:
    for model in models_of(config):
        for size in config.sizes:
            for sample in range(1, config.resamples + 1):
                yield Try(model, size, sample)


def folder_names(config: FewShotConfig) -> dict[str, str]:
    """Returns model → the name of its folder and in tables: as many last parts of its path as distinguish it from the
    others, without characters that file systems may refuse. The name of `runs/a/model` is `a`."""
    parts = {}
    for model in models_of(config):
        safe = [re.sub(r"[^\w.-]+|^\.+", "-", part) for part in Path(model).parts]
        parts[model] = [part for part in safe if part.strip("-")] or ["model"]
        if parts[model][-1] == "model" and len(parts[model]) > 1:
            del parts[model][-1]
    for length in range(1, max(map(len, parts.values())) + 1):
        names = {model: "-".join(model_parts[-length:]) for model, model_parts in parts.items()}
        if len({name.casefold() for name in names.values()}) == len(names):
            return names
    return {model: f"{name}-{number}" for number, (model, name) in enumerate(names.items(), start=1)}


def folder_of(config: FewShotConfig, run: Try) -> Path:
    return Path(config.output) / folder_names(config)[run.model] / str(run.size) / f"sample-{run.sample}"


def finetuning(config: FewShotConfig, run: Try) -> FinetuneConfig:
    """Returns the configuration of a run's training."""
    return FinetuneConfig(
        recipe=replace(config.recipe, model=run.model, examples=run.size, sample=run.sample),
        train=config.train,
        train_langs=config.train_langs,
        translations=config.translations,
        output=str(folder_of(config, run)),
        device=config.device,
        micro_batch_tokens=config.micro_batch_tokens,
    )


def evaluation(config: FewShotConfig, run: Try) -> EvaluateConfig:
    """Returns the configuration of a run's evaluation."""
    return EvaluateConfig(
        model=str(folder_of(config, run)),
        task=test_task(config),
        gold=config.test,
        translations=config.test_translations,
        reporting=Reporting(langs=config.test_langs),
        computing=Computing(device=config.device),
    )
