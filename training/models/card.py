"""The model card, `README.md`: what the Hugging Face hub and a person want to know of a trained model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from transformers import PreTrainedConfig

from training.models.about import About
from training.models.heads import TASK_HEADS

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
{example}
```
"""
_EXAMPLES = {
    "question-answering": """
texts = tokenizer("Who won?", "The Broncos won.", return_tensors="pt")  # transformers 5 has no pipeline for questions
scores = model(**texts)
start, end = scores.start_logits.argmax(), scores.end_logits.argmax()
print(tokenizer.decode(texts["input_ids"][0, start : end + 1]))""",
    "token-classification": """
from transformers import pipeline

find = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple")
print(find("Anna lives in Hanoi."))""",
    "text-classification": """
from transformers import pipeline

classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
print(classify({"text": "Anna lives in Hanoi.", "text_pair": "Anna lives in Vietnam."}))""",
}
"""The hub's name of a task → how transformers uses a model with the standard head, once it is loaded."""
_PIPELINES = ("token-classification", "text-classification")
"""The names of them that are pipelines of transformers."""
_LINES = {
    "qa": '{"query": "Who won?", "context": "The Broncos won."}',
    "tagging": '{"text": "Anna lives in Hanoi."}',
    "pairs": '{"sentence1": "Anna lives in Hanoi.", "sentence2": "Anna lives in Vietnam."}',
}
"""Kind of task → a line that `polyspan-train predict` answers."""
_PREDICT = """\
`polyspan-train predict` answers lines of JSON with it{alone}:

```sh
echo '{line}' | polyspan-train predict .
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


class CardText(NamedTuple):
    """What a card says of its kind of model; the defaults are those of a pre-trained model."""

    title: str = "A cross-lingual span reader"
    hub_task: str = ""
    """The hub's name of the task, such as question-answering."""
    auto_class: str = ""
    """The class of transformers that loads the model with its standard head."""


PRETRAINED = CardText()


def model_card(about: About, config: PreTrainedConfig, purposes: Mapping[str, str], text: CardText = PRETRAINED) -> str:
    """Returns the card as Markdown. `purposes`: name of each head → what it does."""
    origin, reading = about.provenance, about.reading
    standard = any(name in TASK_HEADS for name in about.heads)
    in_transformers = _STANDARD.format(auto=text.auto_class, example=_EXAMPLES.get(text.hub_task, ""))
    lines = [
        "---",
        "library_name: transformers",
        f"tags: [polyspan, {config.model_type}]",
        *([f"pipeline_tag: {text.hub_task}"] if standard and text.hub_task in _PIPELINES else []),
        "---",
        "",
        f"# {text.title}",
        "",
        f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.vocab_size} rows of vocabulary. Training "
        f"began from {origin.base_model} and took {origin.step:,} steps, with polyspan"
        + (f" at commit {origin.commit}." if origin.commit else "."),
        "",
        "## Use",
        "",
        in_transformers if standard else _MASKED,
        *([_predict(reading["kind"], standard)] if reading else []),
        _FINETUNED if reading else _PRETRAINED,
        *_heads(about.heads, purposes),
        "",
        *(["## Reading", "", "```json", _json(reading, indent=2), "```", ""] if reading else []),
        *(_scores(about.scores) if about.scores else []),
        *_limits(about, standard, config),
        *_data(origin.data),
        "## Recipe",
        "",
        "```json",
        _json(origin.recipe, indent=2),
        "```",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in about.versions.items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _predict(kind: str, standard: bool) -> str:
    alone = "" if standard else ". No class or pipeline of transformers reads its head"
    return _PREDICT.format(line=_LINES[kind], alone=alone)


def _heads(heads: Mapping[str, Mapping[str, Any]], purposes: Mapping[str, str]) -> list[str]:
    """Returns one table for each file that holds heads."""
    lines = []
    for file, names in (
        ("model", [name for name in heads if name in TASK_HEADS]),
        ("heads", [name for name in heads if name not in TASK_HEADS]),
    ):
        if names or (file == "heads" and not heads):
            lines += ["", f"| head in `{file}.safetensors` | what it does | size |", "| --- | --- | --- |"]
            lines += [f"| {name} | {purposes[name]} | `{_json(heads[name])}` |" for name in names]
    return lines[1:]


def _limits(about: About, standard: bool, config: PreTrainedConfig) -> list[str]:
    types = "- All tokens had token type 0, those of a second text, too."
    pooler = "- There is no pooler: what `AutoModel` returns as `pooler_output` comes from random weights."
    lines = [types] if standard else [] if config.model_type == "deberta-v2" else [pooler]
    return [
        "## Limits",
        "",
        "- In training, dropout of attention probabilities was "
        f"{about.attention_dropout}, whatever `config.json` says: packed attention has none. All other dropout is "
        "`config.json`'s.",
        *lines,
        "",
    ]


def _data(fingerprints: Mapping[str, str]) -> list[str]:
    rows = [f"| {name} | {fingerprint} |" for name, fingerprint in fingerprints.items()]
    return ["## Data", "", "| dataset | fingerprint |", "| --- | --- |", *rows, ""]


def _scores(scores: Mapping[str, float]) -> list[str]:
    rows = [f"| {name} | {score:.4g} |" for name, score in scores.items()]
    return ["## Scores on the dev files", "", "| what | score |", "| --- | --- |", *rows, ""]


def _json(values: object, indent: int | None = None) -> str:
    return json.dumps(values, indent=indent, ensure_ascii=False)
