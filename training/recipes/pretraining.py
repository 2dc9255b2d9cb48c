"""Named, complete configurations: one for each setting of the papers. A variant is `replace` on another.

"CLISM" is Chen et al. (NAACL 2022), "mPMR" is Xu et al. (ACL 2023). Where a paper is silent, the field says so and
whose habit it follows. docs/paper_settings.md has a row for every number and rule of the recipes that follow a paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class ClismObjective:
    """CLISM + CACR + MLM, on shards of clism/1 (CLISM, 3.1 to 3.3). The loss is the weighted sum; a weight of 0 leaves
    a part out, its head and its pass of the encoder too."""

    clism_weight: float = 1.0
    """Of the span loss, equation 4; the sum of the three is equation 9."""
    cacr_weight: float = 1.0
    """Of the contrastive loss between representations of the two sides, equation 8."""
    mlm_weight: float = 1.0
    """Of masked language modelling (3.3)."""
    cacr_temperature: float = 0.05
    """τ of equation 7, which divides a cosine. CLISM, 4.2 says 20, which leaves next to nothing to learn; the usual
    reading is a scale of 20."""
    mlm_share: float = 0.15
    """Share of the tokens that MLM predicts (4.2); never answers (footnote 4), [QUE] or special tokens."""
    deep_head: bool = False
    """Two layers before the products of equations 2 and 3, as in Splinter; the paper has one matrix each (3.1)."""
    target_only: bool = False
    """Softmax over the target's tokens; equations 2 and 3 run over all of X."""
    max_tokens: int = 256
    """The most tokens of source and target together, with special tokens, of which XLM-R puts 4 around a pair (4.2).
    Where they have more, the longer side is cut, down to half of what is left."""
    max_source_tokens: int = 128
    """The most tokens of the source, without special tokens (4.2). A [QUE] beyond it is counted and left out."""
    max_target_tokens: int = 128
    """The most tokens of the target, without special tokens (4.2). An answer beyond it is counted and left out."""


@dataclass(frozen=True)
class WaeObjective:
    """Wiki Anchor Extraction, on shards of anchor_mrc/1 (mPMR, 2.1)."""

    extractor_inner: int = 1024
    """Inner size of the extractor. The paper is silent: the released code's."""
    extractor_dropout: float = 0.1
    """Inside the extractor: XLM-R's (A.1)."""
    max_tokens: int = 512
    """The most tokens of query and context together, with special tokens, of which XLM-R puts 4 around a pair. A.1
    limits words alone, 50 and 200, when the examples are made; 512 are all that XLM-R has positions for."""
    max_query_tokens: int = 128
    """The most tokens of the query. The paper is silent: this cuts queries that would leave a context too little."""
    max_context_tokens: int = 0
    """The most tokens of the context; 0: whatever the query leaves of `max_tokens`. The paper is silent. An answer
    beyond it is counted and left out."""


Objective = ClismObjective | WaeObjective


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run's result besides the data and the model's weights."""

    name: str
    """What it is called in run.json and on the model card."""
    objective: Objective
    model: str = "xlm-roberta-base"
    """A folder or a name on Hugging Face's hub, of the XLM-R family; `tiny`: small, random, its tokenizer trained on
    the shards. CLISM, 4.2: XLM-R and InfoXLM, base; mPMR, A.1: XLM-R."""
    steps: int = 15_000
    """CLISM, 4.2; mPMR, A.1: 250,000 for base and 100,000 for large."""
    batch_size: int = 64
    """Examples a step, over all processes (CLISM, 4.2; mPMR, A.1: 256 for base, 80 for large)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """CLISM, 4.2: Adam; mPMR, A.1: AdamW."""
    learning_rate: float = 1e-5
    """At the end of warm-up (CLISM, 4.2; mPMR, A.1)."""
    warmup_steps: int = 1_500
    """Steps over which the rate rises from 0 (CLISM, 4.2). mPMR, A.1 names XLM-R's default schedule without numbers: we
    take 6% of the steps, as RoBERTa large had. Then the rate falls linearly to 0 at the last step; the papers do not
    say so: it is the schedule of BERT, of RoBERTa and of Hugging Face's Trainer unless told otherwise."""
    beta1: float = 0.9
    """Papers silent: Adam's own."""
    beta2: float = 0.999
    """Papers silent: Adam's own."""
    epsilon: float = 1e-8
    """Papers silent: Adam's own."""
    weight_decay: float = 0.0
    """CLISM names plain Adam (4.2), so none. mPMR names AdamW (A.1) without a number: 0.01 is PyTorch's and RoBERTa's.
    Never on biases and norms."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to it; 0: never. Papers silent: the habit of Hugging Face's scripts."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the encoder's products; weights and losses are fp32. auto: bf16 on a GPU, fp32 on a CPU. Papers silent."""
    mix_exponent: float = 1.0
    """Exponent of the languages' natural shares: 1 keeps them, 0.7 lifts small ones, 0 makes all equal. Papers silent:
    their tables count the examples of each language and name no other mix."""
    seed: int = 0
    """Decides the order of examples, the masks, dropout and the new heads' first weights."""
    stop_loss_factor: float = 10.0
    """A loss this many times the largest of the last 100 steps stops the run; 0: never. A loss or a gradient that is no
    number always does."""


CLISM = Recipe(name="clism", objective=ClismObjective())

CLISM_PAPER = replace(CLISM, name="clism_paper", objective=ClismObjective(cacr_temperature=20.0))
"""To the letter: docs/paper_settings.md says of every field where it comes from."""

CLISM_NO_CACR = replace(CLISM, name="clism_no_cacr", objective=ClismObjective(cacr_weight=0.0))

MLM_ONLY = replace(CLISM, name="mlm_only", objective=ClismObjective(clism_weight=0.0, cacr_weight=0.0))

MPMR_BASE = Recipe(
    name="mpmr_base",
    objective=WaeObjective(),
    steps=250_000,
    batch_size=256,
    optimizer="adamw",
    warmup_steps=15_000,
    weight_decay=0.01,
)

MPMR_LARGE = replace(
    MPMR_BASE, name="mpmr_large", model="xlm-roberta-large", steps=100_000, batch_size=80, warmup_steps=6_000
)

TINY_CLISM = replace(
    CLISM, name="tiny_clism", model="tiny", steps=300, batch_size=16, warmup_steps=30, learning_rate=1e-3
)

TINY_MPMR = replace(
    MPMR_BASE, name="tiny_mpmr", model="tiny", steps=300, batch_size=16, warmup_steps=30, learning_rate=1e-3
)

RECIPES = {
    recipe.name: recipe
    for recipe in (CLISM, CLISM_PAPER, CLISM_NO_CACR, MLM_ONLY, MPMR_BASE, MPMR_LARGE, TINY_CLISM, TINY_MPMR)
}

ABOUT = {
    "clism": "CLISM + CACR + MLM, with the usual reading of CACR's temperature",
    "clism_paper": "the same to the letter of the paper, whose temperature leaves CACR next to nothing to learn",
    "clism_no_cacr": "the paper's ablation without CACR",
    "mlm_only": "the control: the same text and steps, nothing but MLM",
    "mpmr_base": "mPMR's Wiki Anchor Extraction, from XLM-R base",
    "mpmr_large": "the same from XLM-R large",
    "tiny_clism": "a minute on a CPU, to see CLISM learn; no paper's",
    "tiny_mpmr": "a minute on a CPU, to see mPMR learn; no paper's",
}


@dataclass(frozen=True)
class PretrainConfig:
    """One run. Only `recipe`, `data` and `weights` decide its result: the rest may change when it goes on, at the cost
    of other rounding and dropout where it changes how a batch is divided."""

    recipe: Recipe
    data: tuple[str, ...] = ()
    """Dataset folders that polyspan-data has written, all of one schema."""
    weights: tuple[float, ...] = ()
    """How often each dataset's examples are drawn, relative to their number; empty: all alike."""
    output: str = ""
    """The folder to write: the model, its checkpoints, metrics.jsonl, tensorboard/ and run.json. Repeat the command to
    go on with a run that was stopped."""
    overwrite: bool = False
    """Begin anew. A complete run in the output folder stays until the new one, made in `.NAME.new` beside it, takes its
    place; an unfinished one is deleted."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    loader_workers: int = 2
    """Processes that read and tokenize, for each training process; 0: none but itself. The batches are the same."""
    checkpoint_every: int = 1_000
    """Steps. There is always one at the end, and one more when the run is asked to stop (SIGTERM, Ctrl-C)."""
    keep_checkpoints: int = 2
    """How many of the last checkpoints stay."""
    micro_batch_tokens: int = 0
    """The most tokens that go through the encoder at once, about, in each process; 0: its whole share of the batch.
    Smaller takes less memory and more time; the loss is the same."""
    activation_checkpointing: bool = False
    """Compute the encoder's layers again in the backward pass: a third more time, far less memory."""
    compile: bool = False
    """Compile the encoder's layers with torch.compile: minutes at the start, faster steps on a GPU."""
