"""The model card, `README.md`: what the Hugging Face hub and a person want to know of a trained model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from transformers import PreTrainedConfig

from training.models.heads import HEADS, TASK_HEADS

if TYPE_CHECKING:
    from training.models.folder import About

_MASKED = """\
The encoder and its masked-language-model head load as any of their family:

```python
from transformers import AutoModel, AutoTokenizer

encoder, tokenizer = AutoModel.from_pretrained("."), AutoTokenizer.from_pretrained(".")
```
"""
_STANDARD = """\
Model and head load as any of their kind:

```python
from transformers import {auto}, AutoTokenizer

model, tokenizer = {auto}.from_pretrained("."), AutoTokenizer.from_pretrained(".")
```
"""
_PRETRAINED = """\
All of it, with the heads:

```python
from training.models.folder import load_model

language_model, tokenizer, heads, provenance = load_model(".")
```
"""
_FINETUNED = """\
All of it, with the head and how texts are cut for it:

```python
from training.models.finetuned import load_finetuned

language_model, tokenizer, heads, reading, provenance = load_finetuned(".")
```
"""

_HEADS = {
    "span": "finds the start and the end of the answer to each `[QUE]` (CLISM, section 3.1)",
    "wae": "scores every span of a context as an answer to a query (mPMR, section 2.1)",
    "qa": "scores every token as the start and as the end of the answer",
    "tags": "scores the tags of each word, at its first token",
    "pairs": "scores the labels of two sentences, at the first token",
}
# kind of task → title, the hub's name for it, what transformers loads a standard head with
_KINDS = {
    "qa": ("A cross-lingual reader of questions", "question-answering", "AutoModelForQuestionAnswering"),
    "tagging": ("A cross-lingual tagger of entities", "token-classification", "AutoModelForTokenClassification"),
    "pairs": ("A cross-lingual reader of pairs", "text-classification", "AutoModelForSequenceClassification"),
}


def model_card(about: About, config: PreTrainedConfig) -> str:
    """Made from polyspan.json and config.json alone."""
    origin, reading = about.provenance, about.reading
    standard = any(name in TASK_HEADS for name in about.heads)
    title, task, auto = _KINDS[reading["kind"]] if reading else ("A cross-lingual span reader", "", "")
    lines = [
        "---",
        "library_name: transformers",
        f"tags: [polyspan, {config.model_type}]",
        *([f"pipeline_tag: {task}"] if task else []),
        "---",
        "",
        f"# {title}",
        "",
        f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.vocab_size} rows of vocabulary. Training "
        f"began from {origin.base_model} and took {origin.step:,} steps, with polyspan"
        + (f" at commit {origin.commit}." if origin.commit else "."),
        "",
        "## Use",
        "",
        _STANDARD.format(auto=auto) if standard else _MASKED,
        _FINETUNED if reading else _PRETRAINED,
        f"| head in `{'model' if standard else 'heads'}.safetensors` | what it does | size |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {_HEADS.get(name) or getattr(HEADS[name], 'purpose', name)} | `{_json(settings)}` |"
            for name, settings in about.heads.items()
        ),
        "",
        *(["## Reading", "", "```json", _json(reading, indent=2), "```", ""] if reading else []),
        *(_scores(about.scores) if about.scores else []),
        "## Limits",
        "",
        "- In training, dropout of attention probabilities was "
        f"{about.attention_dropout}, whatever `config.json` says: packed attention has none. All other dropout is "
        "`config.json`'s.",
        "- All tokens had token type 0, those of a second text, too."
        if standard
        else "- There is no pooler: what `AutoModel` returns as `pooler_output` comes from random weights.",
        "",
        "## Data",
        "",
        "| dataset | fingerprint |",
        "| --- | --- |",
        *(f"| {name} | {fingerprint} |" for name, fingerprint in origin.data.items()),
        "",
        "## Recipe",
        "",
        "```json",
        _json(origin.recipe, indent=2),
        "```",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in about.versions.items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _scores(scores: Mapping[str, float]) -> list[str]:
    rows = [f"| {name} | {score:.4g} |" for name, score in scores.items()]
    return ["## Scores on the dev files", "", "| what | score |", "| --- | --- |", *rows, ""]


def _json(values: object, indent: int | None = None) -> str:
    return json.dumps(values, indent=indent, ensure_ascii=False)
