"""Counts the steps in which each recipe of fine-tuning learns 64 records by heart, with a tiny model.

    python -m benchmarks.learning.overfit                      # all recipes
    python -m benchmarks.learning.overfit mpmr_xnli two_stage  # these

Each recipe is trained by `polyspan-train finetune` on 64 records of its task from `--model tiny`, which has two layers
of 128 and random weights, and is evaluated on the same records every 50 steps, until its F1 or accuracy is 95 or its
steps are over. All keep their own method, lengths and batch size; other settings are those of `COMMON` and `OVERRIDES`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from training.engine.best_checkpoint import FILE_NAME as DEV_FILE
from training.engine.best_checkpoint import read as read_evaluations
from training.finetune import finetune
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig, FinetuneRecipe
from training.runtime.outputs import FIRST_STAGE

RECORDS, ENOUGH, EVERY = 64, 95.0, 50
PEOPLE = ("Anna", "Bao", "Chidi", "Dina", "Emil", "Farah", "Goran", "Hoa")
PLACES = ("Hanoi", "Lagos", "Cairo", "Oslo", "Lima", "Pune", "Quito", "Riga")
SENTIMENTS = {"PER": "T-POS", "LOC": "T-NEG", "": "O"}

COMMON: dict[str, Any] = {
    "steps": 200,
    "learning_rate": 1e-3,
    "warmup_share": 0.1,
    "weight_decay": 0.0,
    "model": "tiny",
    "precision": "fp32",
}
_PAIRS = {"max_query_tokens": 16, "batch_size": 16}  # a pair has two to six sequences
OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    "mpmr_paws_x": _PAIRS,
    "mpmr_xnli": _PAIRS,
    "mpmr_paws_x_rationales": _PAIRS,
    "mpmr_xnli_rationales": _PAIRS,
}
"""Recipe → what it needs besides `COMMON`."""


class Learnt(NamedTuple):
    """How a recipe learnt its records."""

    recipe: str
    score: float  # the best F1 or accuracy, in percent
    steps: int  # of the last stage, at which it was first `ENOUGH`, or all
    seconds: float  # of all stages


# --- records, in the layouts in which the tasks' authors publish them -------------------------------------------------


def people_and_places() -> list[tuple[str, str, str, str]]:
    """Returns for each record a person with a place, and another person with another place."""
    found = []
    for number in range(RECORDS):
        at, turn = number % 8, number // 8
        found.append((PEOPLE[at], PLACES[(at + turn) % 8], PEOPLE[(at + 3) % 8], PLACES[(at + 2 * turn + 5) % 8]))
    return found


def squad(folder: Path, language: str = "en") -> Path:
    paragraphs = []
    for number, (person, place, other, elsewhere) in enumerate(people_and_places()):
        first, second = f"{person} lives in {place}.", f"{other} has moved to {elsewhere}."
        context = f"{first} {second}" if number % 3 else f"{second} {first}"
        answer = {"text": place, "answer_start": context.index(first) + first.index(place)}
        question = {"id": f"english-{number}", "question": f"Where is {person}?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    document = {"version": "1.1", "data": [{"title": "people", "paragraphs": paragraphs}]}
    return _written(folder / f"train.{language}.json", json.dumps(document))


def tagged(name: str, line: Callable[[str, str], str]) -> Callable[[Path], Path]:
    """Returns a function that writes the sentences with their tags. `line`: word and tag → line."""

    def write(folder: Path) -> Path:
        blocks = []
        for person, place, other, elsewhere in people_and_places():
            words = [(person, "PER"), ("lives", ""), ("in", ""), (place, "LOC"), (".", "")]
            words += [(other, "PER"), ("has", ""), ("moved", ""), ("to", ""), (elsewhere, "LOC"), (".", "")]
            blocks.append("".join(f"{line(word, label)}\n" for word, label in words))
        return _written(folder / name, "\n".join(blocks))

    return write


def pairs(name: str, header: str, labels: Sequence[str]) -> Callable[[Path], Path]:
    """Returns a function that writes pairs: of each label, the second sentence differs in another word."""

    def write(folder: Path) -> Path:
        lines = []
        for number, (person, place, other, elsewhere) in enumerate(people_and_places()):
            kind = (number + number // 8) % len(labels)
            second = (
                f"{person} stays in {place} .",
                f"{person} lives in {PLACES[PLACES.index(place) - 1]} .",
                f"{other} lives in {elsewhere} .",
            )
            values = {
                "id": str(number),
                "sentence1": f"{person} lives in {place} .",
                "sentence2": second[kind],
                "premise": f"{person} lives in {place} .",
                "hypo": second[kind],
                "label": labels[kind],
            }
            lines.append("\t".join(values[column] for column in header.split("\t")))
        return _written(folder / name, "\n".join([header, *lines, ""]))

    return write


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


FILES: Mapping[str, Callable[[Path], Path]] = {
    "squad": squad,
    "tydiqa": squad,
    "wikiann": tagged("train", lambda word, label: f"en:{word}\t{f'B-{label}' if label else 'O'}"),
    "conll": tagged("eng.train", lambda word, label: f"{word} NN I-NP {f'I-{label}' if label else 'O'}"),
    "absa": tagged("gold-en-train.txt", lambda word, label: f"{word}\t{SENTIMENTS[label]}"),
    "paws_x": pairs("train-en.tsv", "id\tsentence1\tsentence2\tlabel", "10"),
    "xnli": pairs("multinli.train.en.tsv", "premise\thypo\tlabel", ("entailment", "contradictory", "neutral")),
}
"""Task → function that writes its file into a folder."""


# --- training ---------------------------------------------------------------------------------------------------------


def config_of(name: str, folder: Path) -> FinetuneConfig:
    """Returns the configuration of a recipe's run in `folder`, with its records as training and dev file."""
    recipe: FinetuneRecipe = replace(FINETUNE_RECIPES[name], **{**COMMON, **OVERRIDES.get(name, {})})
    file = FILES[recipe.task](folder)
    return FinetuneConfig(
        recipe,
        train=(file,),
        train_langs=("en",),
        dev=(file,),
        dev_langs=("en",),
        evaluate_every=EVERY,
        checkpoint_every=recipe.steps,
        output=str(folder / "run"),
        device="cpu",
    )


def learn(name: str, folder: Path) -> Learnt:
    """Trains the recipe on its records in `folder`, an empty one."""
    config, began = config_of(name, folder), time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        finetune(config)
    rows = read_evaluations(folder / "run" / DEV_FILE)
    steps = next((row["step"] for row in rows if row["score"] >= ENOUGH), rows[-1]["step"])
    return Learnt(name, max(row["score"] for row in rows), steps, time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recipes", nargs="*", metavar="RECIPE", default=list(FINETUNE_RECIPES))
    for name in options.parse_args().recipes:
        with tempfile.TemporaryDirectory() as folder:
            learnt = learn(name, Path(folder))
            rows = [(row["step"], round(row["score"], 1)) for row in read_evaluations(Path(folder) / "run" / DEV_FILE)]
            first = [
                (row["step"], round(row["score"], 1))
                for row in read_evaluations(Path(folder) / "run" / FIRST_STAGE / DEV_FILE)
            ]
            print(learnt, rows, first, flush=True)


if __name__ == "__main__":
    main()
