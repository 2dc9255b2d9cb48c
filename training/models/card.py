"""The model card, `README.md`: what the Hugging Face hub and a person want to know of a trained model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from transformers import PreTrainedConfig

if TYPE_CHECKING:
    from training.models.folder import About

_USE = """\
The encoder and its masked-language-model head load as any of their family, the tokenizer knows `[QUE]`:

```python
from transformers import AutoModel, AutoTokenizer

encoder, tokenizer = AutoModel.from_pretrained("."), AutoTokenizer.from_pretrained(".")
```

All of it, with the heads:

```python
from training.models.folder import load_model

language_model, tokenizer, heads, provenance = load_model(".")
```
"""

_HEADS = {
    "span": "finds the start and the end of the answer to each `[QUE]` (CLISM, section 3.1)",
    "wae": "scores every span of a context as an answer to a query (mPMR, section 2.1)",
}


def model_card(about: About, config: PreTrainedConfig) -> str:
    """Made from polyspan.json and config.json alone."""
    origin = about.provenance
    lines = [
        "---",
        "library_name: transformers",
        f"tags: [polyspan, {config.model_type}]",
        "---",
        "",
        "# A cross-lingual span reader",
        "",
        f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.vocab_size} rows of vocabulary. Training "
        f"began from {origin.base_model} and took {origin.step:,} steps, with polyspan"
        + (f" at commit {origin.commit}." if origin.commit else "."),
        "",
        "## Use",
        "",
        _USE,
        "| head in `heads.safetensors` | what it does | size |",
        "| --- | --- | --- |",
        *(f"| {name} | {_HEADS[name]} | `{json.dumps(settings)}` |" for name, settings in about.heads.items()),
        "",
        "## Limits",
        "",
        f"- In training, dropout of attention probabilities was {about.attention_dropout}, whatever `config.json` "
        "says: packed attention has none. All other dropout is `config.json`'s.",
        "- There is no pooler: what `AutoModel` returns as `pooler_output` comes from random weights.",
        "",
        "## Data",
        "",
        "| dataset | fingerprint of its manifest |",
        "| --- | --- |",
        *(f"| {name} | {fingerprint} |" for name, fingerprint in origin.data.items()),
        "",
        "## Recipe",
        "",
        "```json",
        json.dumps(origin.recipe, indent=2, ensure_ascii=False),
        "```",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in about.versions.items()) + ".",
    ]
    return "\n".join(lines) + "\n"
