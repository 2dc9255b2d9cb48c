"""Counts the steps in which each recipe of fine-tuning learns 64 records by heart, with a tiny model.

    python -m benchmarks.learning.overfit                      # all recipes
    python -m benchmarks.learning.overfit mpmr_xnli two_stage  # these

Each recipe is trained by `polyspan-train finetune` on 64 records of its task from `--model tiny`, which has two layers
of 128 and random weights, and is evaluated on the same records every 25 steps. It ends when the score is 95 or more, or
when its 300 steps are over; so does the first stage of a method that has one. Methods that read translations have the
texts in upper case for translations. All keep their own method and lengths; other settings are those of `COMMON` and
`OVERRIDES`.
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
from unittest import mock

from schemas.translations import Translation, TranslationCounts, kind_of, texts_of
from training.data.dataset_writer import write_dataset
from training.engine.best_checkpoint import FILE_NAME as DEV_FILE
from training.engine.best_checkpoint import Selection
from training.engine.best_checkpoint import read as read_evaluations
from training.finetune import finetune
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig, FinetuneRecipe
from training.tasks.records import read_records

RECORDS, ENOUGH, EVERY = 64, 95.0, 25
PEOPLE = ("Anna", "Bao", "Chidi", "Dina", "Emil", "Farah", "Goran", "Hoa")
PLACES = ("Hanoi", "Lagos", "Cairo", "Oslo", "Lima", "Pune", "Quito", "Riga")
SENTIMENTS = {"PER": "T-POS", "LOC": "T-NEG", "": "O"}

COMMON: dict[str, Any] = {
    "steps": 300,
    "learning_rate": 1e-3,
    "warmup_share": 0.1,
    "weight_decay": 0.0,
    "model": "tiny",
    "precision": "fp32",
}
OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    name: {"batch_size": 16} for name, recipe in FINETUNE_RECIPES.items() if recipe.batch_size > 32
}
"""Recipe → what it needs besides `COMMON`."""


class UntilEnough(Selection):
    """The evaluations of a run that ends when its score is `ENOUGH`."""

    @property
    def is_over(self) -> bool:
        return self.best is not None and self.best["score"] >= ENOUGH


class Learnt(NamedTuple):
    """How a recipe learnt its records."""

    recipe: str
    score: float  # the best F1 or accuracy, in percent
    steps: int  # of the last stage, after which it was first `ENOUGH`, or all
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


PAWS_X_SECOND = (
    "{person} lives in {place} .",
    "Nobody has ever seen {person} there , and {person} never came to {place} at all , as people say .",
)
XNLI_SECOND = ("{person} stays in {place} .", "{person} lives in {next_place} .", "{other} lives in {elsewhere} .")


def pairs(name: str, header: str, labels: Sequence[str], seconds: Sequence[str]) -> Callable[[Path], Path]:
    """Returns a function that writes pairs. `seconds`: the second sentence for each label."""

    def write(folder: Path) -> Path:
        lines = []
        for number, (person, place, other, elsewhere) in enumerate(people_and_places()):
            kind = (number + number // 8) % len(labels)
            names = {"person": person, "place": place, "other": other, "elsewhere": elsewhere}
            second = seconds[kind].format(next_place=PLACES[PLACES.index(place) - 1], **names)
            values = {
                "id": str(number),
                "sentence1": f"{person} lives in {place} .",
                "sentence2": second,
                "premise": f"{person} lives in {place} .",
                "hypo": second,
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
    "paws_x": pairs("train-en.tsv", "id\tsentence1\tsentence2\tlabel", "10", PAWS_X_SECOND),
    "xnli": pairs(
        "multinli.train.en.tsv", "premise\thypo\tlabel", ("entailment", "contradictory", "neutral"), XNLI_SECOND
    ),
}
"""Task → function that writes its file into a folder."""


def translations(file: Path, task: str, folder: Path) -> Path:
    """Writes the records of a file with their texts in upper case as translations, and returns their folder."""
    found = []
    for record in read_records([file], task, ["en"], labelled=True).records:
        texts, row = texts_of(record), record.to_row()
        fields = {name: row.get(name, []) for name in ("answers", "tokens", "tags")}
        about = {"id": record.id, "source_lang": "en", "target_lang": "de", "kind": kind_of(record), "task": task}
        upper = [text.upper() for text in texts]
        label = row.get("label") if kind_of(record) == "pairs" else None
        known = {"labels": "known", "score": None, "label": label, **fields}
        found.append(Translation.from_row({**about, "source_texts": texts, "texts": upper, **known}))
    counts = {"en-de": TranslationCounts(len(found), len(found), known=len(found))}
    write_dataset(folder, "translations/1", found, counts, config={}, versions={})
    return folder


# --- training ---------------------------------------------------------------------------------------------------------


def config_of(name: str, folder: Path) -> FinetuneConfig:
    """Returns the configuration of a recipe's run in `folder`, with its records as training and dev file."""
    recipe: FinetuneRecipe = replace(FINETUNE_RECIPES[name], **{**COMMON, **OVERRIDES.get(name, {})})
    file = FILES[recipe.task](folder)
    parallel = recipe.method.reads_translations
    return FinetuneConfig(
        recipe,
        train=(file,),
        train_langs=("en",),
        dev=(file,),
        dev_langs=("en",),
        translations=(translations(file, recipe.task, folder / "translations"),) if parallel else (),
        evaluate_every=EVERY,
        checkpoint_every=recipe.steps,
        output=str(folder / "run"),
        device="cpu",
    )


def learn(name: str, folder: Path) -> Learnt:
    """Trains the recipe on its records in `folder`, an empty one."""
    config, began = config_of(name, folder), time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()), mock.patch("training.finetune.Selection", UntilEnough):
        finetune(config)
    rows = read_evaluations(folder / "run" / DEV_FILE)
    steps = next((row["step"] for row in rows if row["score"] >= ENOUGH), rows[-1]["step"])
    return Learnt(name, max(row["score"] for row in rows), steps, time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recipes", nargs="*", metavar="RECIPE", default=list(FINETUNE_RECIPES))
    print("| recipe | F1 or accuracy | steps | seconds |\n| --- | --- | --- | --- |", flush=True)
    for name in options.parse_args().recipes:
        with tempfile.TemporaryDirectory() as folder:
            learnt = learn(name, Path(folder))
            print(f"| `{name}` | {learnt.score:.1f} | {learnt.steps} | {learnt.seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
