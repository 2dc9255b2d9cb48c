"""A training file and a dev file of a few questions, and a small run of fine-tuning on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneConfig

PEOPLE = ("Anna", "Bao", "Chidi", "Dina", "Emil", "Farah", "Goran", "Hoa")
PLACES = ("Hanoi", "Lagos", "Cairo", "Oslo", "Lima", "Pune", "Quito", "Riga")


def squad(path: Path, count: int) -> Path:
    """Who lives where, in sentences of two."""
    paragraphs = []
    for at in range(count):
        person, other = PEOPLE[at % 8], PEOPLE[(at + 3) % 8]
        place, elsewhere = PLACES[at % 8], PLACES[(at + 5) % 8]
        context = f"{person} lives in {place}. {other} has moved to {elsewhere}."
        answer = {"text": place, "answer_start": context.index(place)}
        paragraphs.append(
            {"context": context, "qas": [{"id": f"q{at}", "question": f"Where is {person}?", "answers": [answer]}]}
        )
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}), "utf-8")
    return path


def people_config(model: Path, folder: Path) -> FinetuneConfig:
    """16 questions, 4 a step, a dev file of 8, an evaluation every 2 of 6 steps."""
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
