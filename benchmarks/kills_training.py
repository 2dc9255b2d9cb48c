"""Kills the trainer's commands before every file operation below their output, and repeats them: what is left?

    OMP_NUM_THREADS=1 python -m benchmarks.kills_training [COMMAND …] [--first 1] [--step 1] [--folder FOLDER]

Prints a row for each command: kills, and whether the output was then unfinished, the old one or the new one. Ends with
an error at the first that was anything else, or whose repetition did not end with the same bytes. Needs the tests.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GIT_DIR"] = os.devnull  # outputs name the commit, which may change meanwhile

import torch._dynamo
import torch.utils.tensorboard
from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

from schemas import manifest
from tests.training.kills import Case, in_child, kill_everywhere
from tests.training.people import people_config, squad
from tests.training.runs import small
from tests.training.tuned import save_tuned
from training import benchmark, convert, few_shot
from training.evaluate import evaluate
from training.finetune import finetune
from training.models.tiny import train_tokenizer
from training.pretrain import pretrain
from training.recipes.finetuning import FINETUNE_RECIPES
from training.recipes.inference import Computing, EvaluateConfig
from training.recipes.methods import Plain
from training.recipes.suites import BenchmarkConfig
from training.runtime import outputs
from training.score import Reporting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="default: all")
    parser.add_argument("--first", type=int, default=1, help="the first operation to kill at")
    parser.add_argument("--step", type=int, default=1, help="from one operation to the next")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="polyspan-kills-") as temporary:
        folder = options.folder or Path(temporary)
        print("| command | kills | unfinished | the old one | the new one | seconds |\n|---|---|---|---|---|---|")
        for name in options.commands or CASES:
            began, here = time.monotonic(), folder / name.replace(" ", "")
            here.mkdir(parents=True)
            case = CASES[name](here)
            found = kill_everywhere(case, here / "kills", options.first, options.step)
            cells = (name, *found, round(time.monotonic() - began))
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def made(folder: Path, job: Callable[[Path], object]) -> Path:
    """What the job writes to `folder/before`, in a child: this process must not use torch before it forks."""
    code, told = in_child(lambda: job(folder / "before"), folder)
    if code:
        raise SystemExit(told)
    return folder / "before"


def has_model(folder: Path) -> bool:
    return outputs.is_complete(folder)


def pretraining(folder: Path, overwrite: bool = False, in_background: bool = False) -> Case:
    config = replace(small("tiny_clism", folder, steps=4), checkpoint_every=1)
    if in_background:
        config = replace(config, write_checkpoints="background")
    before = None
    if overwrite:
        before = made(folder, lambda output: pretrain(replace(config, output=str(output))))
        config = replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=1e-2))
    return Case(lambda output: pretrain(replace(config, output=str(output))), has_model, before)


def fine_tuning(folder: Path, overwrite: bool = False, two_stage: bool = False) -> Case:
    config = replace(people_config(model_in(folder), folder), evaluate_every=1, checkpoint_every=1, keep_checkpoints=2)
    config = replace(config, recipe=replace(config.recipe, steps=4))
    if two_stage:
        method = FINETUNE_RECIPES["two_stage_hl"].method
        recipe = replace(config.recipe, name="two_stage", method=method, steps=4)
        config = replace(config, recipe=recipe, dev=(), dev_langs=())
    before = None
    if overwrite:
        before = made(folder, lambda output: finetune(replace(config, output=str(output))))
        config = replace(config, overwrite=True, recipe=replace(config.recipe, learning_rate=1e-3))
    return Case(lambda output: finetune(replace(config, output=str(output))), has_model, before)


def model_in(folder: Path) -> Path:
    """A small random model with a tokenizer of the training file's texts, made in a child."""

    def make(output: Path) -> None:
        tokenizer = train_tokenizer(iter([squad(folder / "texts.json", 16).read_text()]))
        tokenizer.save_pretrained(output)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=514, type_vocab_size=1, **sizes)
        torch.manual_seed(0)
        XLMRobertaForMaskedLM(config).save_pretrained(output)

    return made(folder, make).rename(folder / "model")


def evaluation(folder: Path) -> Case:
    base = model_in(folder)
    model = made(folder, lambda output: save_tuned(output, base, Plain(), "qa")).rename(folder / "tuned")
    gold = (squad(folder / "xquad.en.json", 4), squad(folder / "xquad.de.json", 4))
    reporting, computing = Reporting(resamples=10), Computing(device="cpu")
    given = EvaluateConfig(str(model), "xquad", gold, reporting=reporting, computing=computing)
    return Case(
        lambda output: evaluate(replace(given, output=str(output))), lambda output: (output / "report.txt").is_file()
    )


def conversion(folder: Path, overwrite: bool = False) -> Case:
    files = tuple(squad(folder / f"xquad.{lang}.json", 4) for lang in ("en", "de"))
    before = None
    if overwrite:
        before = made(folder, lambda output: convert.run(convert.ConvertConfig("xquad", files[:1], output)))
    return Case(
        lambda output: convert.run(convert.ConvertConfig("xquad", files, output, overwrite=overwrite)),
        lambda output: (output / manifest.FILE_NAME).is_file(),
        before,
    )


def series(folder: Path) -> Case:
    of = people_config(Path("tiny"), folder)
    config = few_shot.FewShotConfig(
        replace(of.recipe, steps=2, model="tiny"),
        train=of.train,
        train_langs=("en",),
        test=(squad(folder / "xquad.en.json", 4),),
        test_task="xquad",
        sizes=(4, 8),
        resamples=1,
        device="cpu",
    )
    return Case(
        lambda output: few_shot.run(replace(config, output=str(output))),
        lambda output: (output / "few_shot.svg").is_file(),
    )


def suite(folder: Path) -> Case:
    squad(folder / "train-v1.1.json", 16)
    squad(folder / "xquad.en.json", 4)
    (folder / "suite.toml").write_text(
        'seeds = [1, 2]\n[[methods]]\nrecipe = "plain_qa"\noptions = { steps = 2, max_tokens = 64, stride = 8 }\n'
        '[[trainings]]\ntask = "squad"\n[[trainings.tests]]\ntask = "xquad"\nlangs = ["en"]\n'
    )
    config = BenchmarkConfig(str(folder / "suite.toml"), folder, ("tiny",), resamples=10, device="cpu")
    config = replace(config, set=("batch_size=4", "max_query_tokens=16"))
    return Case(
        lambda output: benchmark.run(replace(config, output=str(output))),
        lambda output: (output / "results.json").is_file(),
    )


CASES: dict[str, Callable[[Path], Case]] = {
    "pretrain": pretraining,
    "pretrain in background": lambda folder: pretraining(folder, in_background=True),
    "pretrain --overwrite": lambda folder: pretraining(folder, overwrite=True),
    "finetune": fine_tuning,
    "finetune --overwrite": lambda folder: fine_tuning(folder, overwrite=True),
    "two_stage": lambda folder: fine_tuning(folder, two_stage=True),
    "few-shot": series,
    "benchmark": suite,
    "evaluate": evaluation,
    "convert": conversion,
    "convert --overwrite": lambda folder: conversion(folder, overwrite=True),
}

if __name__ == "__main__":
    main()
