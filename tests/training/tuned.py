"""Makes folders of small fine-tuned models with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from schemas.mrc import MrcExample, PairExample, TaggingExample
from training.data.tokens import TextEncoder
from training.methods.registry import formulation_of
from training.models.finetuned import save_finetuned
from training.models.folder import Provenance, load_model
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import InferenceSettings
from training.recipes.methods import MethodSettings, Plain, Que, TwoStage, Unified, XMixup
from training.tasks.columns import joined

Kind = Literal["qa", "tagging", "pairs"]
UNIFIED = Unified(extractor_inner=16, threshold=0.5)
METHODS: list[tuple[MethodSettings, Kind]] = [
    (Plain(), "qa"),
    (Que(), "qa"),
    (UNIFIED, "qa"),
    (TwoStage(), "qa"),
    (Plain(), "tagging"),
    (Que(), "tagging"),
    (UNIFIED, "tagging"),
    (Plain(), "pairs"),
    (UNIFIED, "pairs"),
    (XMixup(), "qa"),
    (XMixup(), "tagging"),
    (XMixup(), "pairs"),
]
LABELS: dict[str, tuple[str, ...]] = {
    "qa": (),
    "tagging": ("LOC", "ORG", "PER"),
    "pairs": ("contradiction", "entailment", "neutral"),
}
TASKS = {"qa": "xquad", "tagging": "wikiann", "pairs": "xnli"}


def named(case: tuple[MethodSettings, Kind]) -> str:
    return f"{type(case[0]).__name__}-{case[1]}"


def inference_settings_of(method: MethodSettings, kind: Kind, **changes: Any) -> InferenceSettings:
    sizes = {"max_tokens": 64, "max_query_tokens": 24, "stride": 8, "max_answer_tokens": 12}
    return InferenceSettings(method, kind, **{"labels": LABELS[kind], **sizes, **changes})


def save_tuned(folder: Path, base: Path, method: MethodSettings, kind: Kind, **changes: Any) -> Path:
    """A model of that method; its head has weights large enough to be sure of something."""
    start, settings = load_model(base), inference_settings_of(method, kind, **changes)
    if isinstance(method, Que):
        add_que_token(start.language_model, start.tokenizer, 1)
    heads = formulation_of(settings, TextEncoder(start.tokenizer)).heads(start, 1)
    for head in heads.values():
        with torch.no_grad():
            for weight in head.parameters():
                weight.mul_(10.0)
    about = Provenance("xlmr", {"task": TASKS[kind]}, {}, 1)
    save_finetuned(folder, start.language_model, start.tokenizer, heads, settings, about, {})
    return folder


TEXTS = {
    "en": "Anna lives in Hanoi 👩‍👩‍👧 and visits Bonn .",
    "ar": "تعيش آنا في هانوي وتزور بون .",
    "th": "อันนา อยู่ ที่ ฮานอย และ ไป บอนน์ .",
    "hi": "अन्ना हनोई में रहती है । é́ .",
    "de": "Der Ort , an dem Anna heute wohnt , heißt Bonn , und er liegt am Rhein . " * 4,
}


def records_of(kind: str) -> list[Any]:
    """Makes labelled records of several lengths and scripts. Some need more than one window."""
    task = TASKS[kind]
    if kind == "qa":
        return [
            MrcExample(f"{lang}-{n}", lang, query, text, (), (text.split()[n],), True, task, None)
            for lang, text in TEXTS.items()
            for n, query in enumerate(("Where ?", "Wer wohnt heute dort ?"))
        ]
    if kind == "tagging":
        found = []
        for lang, text in TEXTS.items():
            joined_text, tokens = joined(text.split())
            tags = ("B-PER", *("O",) * (len(tokens) - 2), "B-LOC")
            found.append(TaggingExample(lang, lang, joined_text, tokens, tags, task))
        return found
    return [
        PairExample(f"{lang}-{n}", lang, text, other, LABELS["pairs"][n], task)
        for lang, text in TEXTS.items()
        for n, other in enumerate(("Anna lives .", "Bonn"))
    ]
