"""Makes files of a few questions, and the configuration of a small fine-tuning run on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig

PEOPLE = ("Anna", "Bao", "Chidi", "Dina", "Emil", "Farah", "Goran", "Hoa")
PLACES = ("Hanoi", "Lagos", "Cairo", "Oslo", "Lima", "Pune", "Quito", "Riga")


def squad(path: Path, count: int) -> Path:
    """Writes questions about where people live."""
    paragraphs = []
    for number in range(count):
        person, other = PEOPLE[number % 8], PEOPLE[(number + 3) % 8]
        place, elsewhere = PLACES[number % 8], PLACES[(number + 5) % 8]
        context = f"{person} lives in {place}. {other} has moved to {elsewhere}."
        answer = {"text": place, "answer_start": context.index(place)}
        paragraphs.append(
            {"context": context, "qas": [{"id": f"q{number}", "question": f"Where is {person}?", "answers": [answer]}]}
        )
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}), "utf-8")
    return path


def people_config(model: Path, folder: Path) -> FinetuneConfig:
    """Trains on 16 questions, 4 in each of 6 steps, and evaluates on 8 dev questions every 2 steps."""
    recipe = replace(
        FINETUNE_RECIPES["plain_qa"],
        model=str(model),
        max_tokens=48,
        max_query_tokens=16,
        stride=8,
        batch_size=4,
        steps=6,
        learning_rate=3e-3,
    )
    return FinetuneConfig(
        recipe,
        train=(squad(folder / "train.json", 16),),
        train_langs=("en",),
        dev=(squad(folder / "dev.json", 8),),
        dev_langs=("en",),
        evaluate_every=2,
        checkpoint_every=2,
        output=str(folder / "run"),
        device="cpu",
    )
