"""Recipes of pre-training: named, complete configurations, one for each setting of the papers, and variants of them.

"CLISM" is Chen et al. (NAACL 2022), "mPMR" is Xu et al. (ACL 2023). If a paper does not state a value, the field says
so and where the value comes from. docs/paper_settings.md has a row for every number and rule of a paper's recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class ClismObjective:
    """Trains CLISM, CACR and MLM on datasets of clism/1 (CLISM, 3.1 to 3.3). The loss is their weighted sum; a weight
    of 0 leaves a loss out, with its head and its pass of the encoder."""

    clism_weight: float = 1.0
    """Weight of the span loss (CLISM, equation 4) in the sum of the three losses (equation 9)."""
    cacr_weight: float = 1.0
    """Weight of CACR, the contrastive loss between representations of source and target (CLISM, equation 8)."""
    mlm_weight: float = 1.0
    """Weight of masked language modelling, MLM (CLISM, 3.3)."""
    cacr_temperature: float = 0.05
    """Temperature τ of CACR, which divides a cosine (CLISM, equation 7). CLISM, 4.2 states 20, with which CACR learns
    almost nothing; it is usually read as a scale of 20, a temperature of 0.05."""
    mlm_share: float = 0.15
    """Share of the tokens that MLM predicts, from 0 to 1 (CLISM, 4.2). It never predicts tokens of answers (footnote
    4), [QUE] or special tokens."""
    deep_head: bool = False
    """Adds a layer to the span head for questions and one for tokens, as in Splinter. The paper has one matrix for
    start and one for end (CLISM, 3.1)."""
    target_only: bool = False
    """Computes the span loss's softmax over the target's tokens alone. The paper's runs over source and target (CLISM,
    equations 2 and 3)."""
    max_tokens: int = 256
    """Limit of tokens for source and target together, including special tokens (CLISM, 4.2); XLM-R puts 4 around a
    pair. If they have more,
    the longer side is cut; if both are longer than half of the room, each keeps half."""
    max_source_tokens: int = 128
    """Limit of tokens for the source, without special tokens (CLISM, 4.2). Questions whose [QUE] is cut are counted and
    left out."""
    max_target_tokens: int = 128
    """Limit of tokens for the target, without special tokens (CLISM, 4.2). Answers that are cut are counted and left
    out."""


@dataclass(frozen=True)
class WaeObjective:
    """Trains Wiki Anchor Extraction on datasets of anchor_mrc/1 (mPMR, 2.1)."""

    extractor_inner: int = 1024
    """Size of the extractor's inner layer. mPMR does not state it; this is the released code's."""
    extractor_dropout: float = 0.1
    """Dropout probability in the extractor; XLM-R's (mPMR, A.1)."""
    max_tokens: int = 512
    """Limit of tokens for query and context together, including special tokens; XLM-R puts 4 around a pair. mPMR, A.1
    limits words only (50 and 200), when the examples are made; 512 is the number of XLM-R's positions."""
    max_query_tokens: int = 128
    """Limit of tokens for the query. mPMR does not state one; this one keeps room for the context."""
    max_context_tokens: int = 0
    """Limit of tokens for the context; 0: as many as the query leaves of `max_tokens`. mPMR does not state one. Answers
    that are cut are counted and left out."""


Objective = ClismObjective | WaeObjective


@dataclass(frozen=True)
class Recipe:
    """All settings that decide a run's result. The data and the starting model's weights decide it, too."""

    name: str
    """The recipe's name in run.json and on the model card."""
    objective: Objective
    model: str = "xlm-roberta-base"
    """The starting model, an XLM-R, XLM-R XL, RoBERTa, BERT or DeBERTa-v2 or -v3 (docs/encoders.md): the folder of a
    model or of a run, or a name on Hugging Face's hub. `tiny` makes a small random model whose tokenizer is trained on
    the data. The papers use XLM-R and InfoXLM base (CLISM, 4.2) and XLM-R (mPMR, A.1)."""
    steps: int = 15_000
    """Number of training steps (CLISM, 4.2). mPMR, A.1 takes 250,000 for base and 100,000 for large."""
    batch_size: int = 64
    """Number of examples in each step, over all processes (CLISM, 4.2). mPMR, A.1 takes 256 for base and 80 for
    large."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """The optimizer: CLISM names Adam (4.2), mPMR AdamW (A.1)."""
    learning_rate: float = 1e-5
    """Learning rate at the end of warm-up (CLISM, 4.2; mPMR, A.1)."""
    warmup_steps: int = 1_500
    """Number of steps in which the learning rate rises from 0 (CLISM, 4.2). mPMR, A.1 names XLM-R's default schedule
    without numbers; we take 6% of the steps, as RoBERTa large did. Then the rate falls linearly to 0 at the last step,
    which the papers do not state; BERT, RoBERTa and, by default, Hugging Face's Trainer do so."""
    beta1: float = 0.9
    """Adam's β1. The papers do not state it; this is Adam's default."""
    beta2: float = 0.999
    """Adam's β2. The papers do not state it; this is Adam's default."""
    epsilon: float = 1e-8
    """Adam's ε. The papers do not state it; this is Adam's default."""
    weight_decay: float = 0.0
    """Weight decay, which never applies to biases and norms. CLISM names plain Adam (4.2), which has none. mPMR names
    AdamW (A.1) without a number; its recipes take 0.01, PyTorch's and RoBERTa's."""
    max_gradient_norm: float = 1.0
    """Gradients with a larger norm are scaled down to this one; 0: never. The papers do not state it; Hugging Face's
    scripts take 1."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Number format of the encoder's matrix products; weights and losses are fp32. auto: bf16 on a GPU, fp32 on a CPU.
    The papers do not state it."""
    mix_exponent: float = 1.0
    """Exponent of the languages' shares of the data: 1 keeps the natural shares, 0.7 raises small languages', 0 makes
    all equal. The papers name no mix; their tables only count the examples of each language."""
    seed: int = 0
    """Seed of the order of examples, the masks, dropout and the new heads' first weights."""
    stop_loss_factor: float = 10.0
    """The run stops if a loss is this many times the largest of the last 100 steps; 0: never."""


CLISM = Recipe(name="clism", objective=ClismObjective())

CLISM_PAPER = replace(CLISM, name="clism_paper", objective=ClismObjective(cacr_temperature=20.0))
"""Follows the paper to the letter; docs/paper_settings.md names the source of every field."""

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
    "clism_paper": "clism to the letter of the paper, with a temperature at which CACR learns almost nothing",
    "clism_no_cacr": "the paper's ablation without CACR",
    "mlm_only": "the control: the same text and steps with MLM alone",
    "mpmr_base": "mPMR's Wiki Anchor Extraction, from XLM-R base",
    "mpmr_large": "mPMR's Wiki Anchor Extraction, from XLM-R large",
    "tiny_clism": "a small model that learns CLISM in a minute on a CPU; not from a paper",
    "tiny_mpmr": "a small model that learns mPMR in a minute on a CPU; not from a paper",
}


@dataclass(frozen=True)
class PretrainConfig:
    """Configures one run. Only `recipe`, `data` and `weights` decide its result. The other settings may change when a
    run is resumed; those that divide a batch differently change its rounding, and another number of processes also
    which units dropout drops."""

    recipe: Recipe
    data: tuple[str, ...] = ()
    """Dataset folders that polyspan-data wrote, all of one schema."""
    weights: tuple[float, ...] = ()
    """How often each dataset's examples are drawn, relative to their number: one weight for each dataset, or none to
    draw all equally often."""
    held_out: tuple[str, ...] = ()
    """Dataset folders of examples that are not trained on. Their loss is in metrics.jsonl and TensorBoard as
    held_out/loss."""
    held_out_examples: int = 1_000
    """Maximum number of examples of --held-out that are evaluated, always the same, in whole batches."""
    evaluate_every: int = 1_000
    """Number of steps between evaluations on --held-out. The last step is always evaluated."""
    model_every: int = 0
    """Number of steps between models that are kept as models/step-…, for instance to choose the one that is best after
    fine-tuning (mPMR, A.1); 0 keeps none. The last one is model/."""
    output: str = ""
    """Folder for the model, its checkpoints, metrics.jsonl, tensorboard/ and run.json. Repeat the command to resume a
    run that was stopped."""
    overwrite: bool = False
    """Begin anew. A complete run in the output folder stays until the new one, which is made in `.NAME.new`, replaces
    it; an unfinished one is deleted."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that computes. auto: a GPU if there is one, else the CPU."""
    verify_shards: bool = False
    """Compare every shard with its checksum again. Without it, a run that is resumed trusts shards that it has compared
    before and whose size, time of change and file number are the same."""
    loader_workers: int = 2
    """Number of processes that read and tokenize for each training process; 0: it does so itself. The batches are the
    same."""
    checkpoint_every: int = 1_000
    """Number of steps between checkpoints. There is also one at the end, and one when a signal stops the run (SIGTERM,
    Ctrl-C)."""
    keep_checkpoints: int = 2
    """Number of checkpoints to keep, the last ones."""
    write_checkpoints: Literal["auto", "background", "foreground"] = "auto"
    """How checkpoints are written: in the background while the training goes on, for which they are copied to the
    host's memory, three times the model's size; or in the foreground. auto: in the background if the device is a
    GPU."""
    stop_after_skipped: int = 5
    """Stop with an error after this many steps in a row whose loss or gradient norm is not finite. Such a step changes
    neither weights nor optimizer state; the log counts it. 1 stops at the first one."""
    micro_batch_tokens: int = 0
    """Approximate limit of tokens that go through the encoder at once in each process; 0: its whole share of the batch.
    A lower limit takes less memory and more time; the loss is the same up to rounding, unless --compile is given."""
    activation_checkpointing: bool = False
    """Recompute the encoder's layers in the backward pass, which takes a third more time and far less memory."""
    compile: bool = False
    """Compile the encoder's layers with torch.compile, once for batches of any shape, which takes up to minutes at the
    start. It does not make a CPU faster; it was not measured on a GPU. DeBERTa's layers are never compiled."""
