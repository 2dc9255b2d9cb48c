"""The recipes of fine-tuning: complete, named configurations, one for each setting of the papers.

"CLISM" is Chen et al. (NAACL 2022), "mPMR" is Xu et al. (ACL 2023) and "two-stage" is Chen et al. (AAAI 2022). If the
papers do not give a value, the field says where ours comes from. docs/paper_settings.md has a row for every number and
rule of the recipes that follow a paper.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from training.recipes.methods import Filter, MethodSettings, Plain, Que, TwoStage, Unified, XMixup
from training.recipes.task_name import OptionalTask


@dataclass(frozen=True)
class InferenceSettings:
    """What prediction needs besides the weights. polyspan.json holds it under the key "reading"."""

    method: MethodSettings
    kind: Literal["qa", "tagging", "pairs"]
    labels: tuple[str, ...] = ()  # of entities, targets or pairs, in the order of their numbers; empty for questions
    max_tokens: int = 384
    max_query_tokens: int = 64
    stride: int = 128
    max_answer_tokens: int = 30


@dataclass(frozen=True)
class FinetuneRecipe:
    """The settings that decide a run's result, together with the data and the starting model."""

    name: str
    """Name of the recipe in run.json and on the model card."""
    method: MethodSettings
    task: OptionalTask = "squad"
    """The benchmark whose files --train names."""
    model: str = "xlm-roberta-base"
    """The model to start from, an XLM-R, XLM-R XL, RoBERTa, BERT or DeBERTa-v2 or -v3 (docs/encoders.md): the folder of
    a model or of a run, a name on Hugging Face's hub, or `tiny`, a small model with random weights and a tokenizer
    trained on the records. Two-stage training starts from xlm-roberta-base; CLISM's and mPMR's recipes are for their
    pre-trained models, which --model must name."""
    max_tokens: int = 384
    """Maximum tokens of a sequence, special tokens included. Longer contexts and sentences are cut into windows that
    overlap (two-stage, Implementation Details; CLISM, C; mPMR, table 5)."""
    max_query_tokens: int = 64
    """Maximum tokens of a query. Longer queries are cut, and the log counts them (two-stage, Implementation Details;
    mPMR, table 5; CLISM does not say)."""
    stride: int = 128
    """Tokens that neighbouring windows share, at most half of the space for text. The papers do not say: this is
    XTREME's value."""
    max_answer_tokens: int = 30
    """Maximum tokens of a predicted span. The papers do not say: this is XTREME's value."""
    epochs: float = 3.0
    """Number of epochs, unless --steps is given (two-stage, Implementation Details; CLISM, C; mPMR, table 5)."""
    steps: int = 0
    """Number of steps; 0 computes it from --epochs. CLISM uses 200 for few-shot training (CLISM, C)."""
    batch_size: int = 32
    """Sequences per step, summed over all processes (CLISM, C; two-stage; mPMR, table 5). In the unified method, a pair
    counts as one, with the sequences of all its labels; a sentence counts once for each label."""
    optimizer: Literal["adam", "adamw"] = "adamw"
    """The optimizer. CLISM uses Adam (CLISM, C) and two-stage training AdamW (Implementation Details); mPMR names AdamW
    for pre-training (A.1) and does not say for fine-tuning."""
    learning_rate: float = 3e-5
    """Learning rate at the end of warm-up (CLISM, C; two-stage; mPMR, table 5)."""
    warmup_share: float = 0.1
    """Share of the steps in which the learning rate rises from 0 (two-stage, Implementation Details). CLISM and mPMR do
    not say; mPMR's recipes have RoBERTa's 0.06. After warm-up the rate falls linearly to 0 at the last step, as in BERT
    and RoBERTa and by default in Hugging Face's Trainer; no paper says so."""
    beta1: float = 0.9
    """Adam's β1. The papers do not say: this is Adam's default."""
    beta2: float = 0.999
    """Adam's β2. The papers do not say: this is Adam's default."""
    epsilon: float = 1e-8
    """Adam's ε. The papers do not say: this is Adam's default."""
    weight_decay: float = 0.01
    """Weight decay, which biases and norms never get (two-stage, Implementation Details). CLISM names plain Adam (C),
    so its recipes have 0; mPMR does not say, so its recipes have PyTorch's default for AdamW."""
    max_gradient_norm: float = 1.0
    """Gradients with a larger norm are scaled down to this norm; 0 turns clipping off. The papers do not say: this is
    the value of Hugging Face's scripts."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the encoder's matrix products; weights and losses are fp32. auto takes bf16 on a GPU and fp32 on a
    CPU. The papers do not say."""
    examples: int = 0
    """Number of records to train on, for few-shot training; 0 takes all (CLISM, C: 64 to 1,024)."""
    sample: int = 1
    """Number of the random sample that --examples draws. Nothing else depends on it."""
    seed: int = 1
    """Seed of new weights, the order of the examples and dropout."""
    stop_loss_factor: float = 0.0
    """Stop with an error if the loss is more than this many times the largest of the last 100 steps; 0 never
    stops."""

    @property
    def warmup_steps(self) -> int:
        """The number of warm-up steps; valid once `steps` is known."""
        return round(self.steps * self.warmup_share)


PLAIN_QA = FinetuneRecipe(name="plain_qa", method=Plain())
PLAIN_TAGGING = replace(
    PLAIN_QA, name="plain_tagging", task="wikiann", max_tokens=128, stride=32, learning_rate=2e-5, epochs=10.0
)
PLAIN_PAIRS = replace(PLAIN_QA, name="plain_pairs", task="xnli", max_tokens=128, learning_rate=2e-5, epochs=5.0)

_CLISM = FinetuneRecipe(name="clism_qa", method=Que(), epochs=5.0, optimizer="adam", weight_decay=0.0)
CLISM_QA = _CLISM
CLISM_NER = replace(
    _CLISM, name="clism_ner", method=Plain(), task="wikiann", max_tokens=128, stride=32, learning_rate=5e-5
)
CLISM_NER_QUE = replace(CLISM_NER, name="clism_ner_que", method=Que(), max_query_tokens=32)
CLISM_FEW_SHOT = replace(_CLISM, name="clism_few_shot", steps=200)

_MPMR = FinetuneRecipe(name="mpmr", method=Unified(), warmup_share=0.06)


def _mpmr(task: str, query: int, length: int, batch: int, rate: float, epochs: int) -> FinetuneRecipe:
    """Returns the recipe of a column of table 5, which is for mPMR large (A.1); we use it for all sizes."""
    return replace(
        _MPMR,
        name=f"mpmr_{task}",
        task=task,
        max_query_tokens=query,
        max_tokens=length,
        stride=min(_MPMR.stride, length // 4),
        batch_size=batch,
        learning_rate=rate,
        epochs=float(epochs),
    )


# XQuAD and MLQA have no training files of their own: their models are trained on SQuAD.
MPMR_SQUAD = _mpmr("squad", 64, 384, 8, 3e-5, 3)
MPMR_TYDIQA = _mpmr("tydiqa", 64, 384, 8, 2e-5, 10)
MPMR_WIKIANN = _mpmr("wikiann", 32, 192, 16, 1e-5, 10)
MPMR_CONLL = _mpmr("conll", 32, 192, 16, 1e-5, 10)
MPMR_ABSA = _mpmr("absa", 32, 192, 32, 2e-5, 20)
MPMR_PAWS_X = _mpmr("paws_x", 64, 192, 16, 5e-5, 10)
MPMR_XNLI = _mpmr("xnli", 64, 192, 32, 3e-5, 3)
_RATIONALES = Unified(cells="all", template="sentences")
MPMR_PAWS_X_RATIONALES = replace(MPMR_PAWS_X, name="mpmr_paws_x_rationales", method=_RATIONALES)
MPMR_XNLI_RATIONALES = replace(MPMR_XNLI, name="mpmr_xnli_rationales", method=_RATIONALES)

TWO_STAGE = FinetuneRecipe(name="two_stage", method=TwoStage(), epochs=8.0)
TWO_STAGE_PAPER = replace(TWO_STAGE, name="two_stage_paper", method=TwoStage(temperature=10.0, gold_first=False))
"""Follows the paper to the letter: docs/paper_settings.md has the source of every field."""
TWO_STAGE_HL = replace(TWO_STAGE, name="two_stage_hl", method=TwoStage(alpha=0.0))
TWO_STAGE_AACL = replace(TWO_STAGE, name="two_stage_aacl", method=TwoStage(hard="none"))
TWO_STAGE_MML = replace(TWO_STAGE, name="two_stage_mml", method=TwoStage(hard="mml"))
TWO_STAGE_HARD_EM = replace(TWO_STAGE, name="two_stage_hard_em", method=TwoStage(hard="hard_em"))

FILTER_QA = FinetuneRecipe(
    name="filter_qa",
    method=Filter(local_layers=1, fusion_layers=20, self_teaching=0.1),
    model="xlm-roberta-large",
    epochs=2.0,
    batch_size=64,
    learning_rate=5e-6,
)
FILTER_PAIRS = replace(
    FILTER_QA,
    name="filter_pairs",
    method=Filter(local_layers=1, fusion_layers=1, self_teaching=0.5),
    task="paws_x",
    max_tokens=128,
    epochs=4.0,
)
FILTER_TAGGING = replace(
    FILTER_PAIRS,
    name="filter_tagging",
    method=Filter(local_layers=1, fusion_layers=1, self_teaching=1.0),
    task="wikiann",
    stride=32,
)
_TRANSLATE_TRAIN = Filter(local_layers=24, fusion_layers=0)
TRANSLATE_TRAIN_QA = replace(FILTER_QA, name="translate_train_qa", method=_TRANSLATE_TRAIN)
TRANSLATE_TRAIN_PAIRS = replace(FILTER_PAIRS, name="translate_train_pairs", method=_TRANSLATE_TRAIN)
TRANSLATE_TRAIN_TAGGING = replace(FILTER_TAGGING, name="translate_train_tagging", method=_TRANSLATE_TRAIN)

X_MIXUP_QA = FinetuneRecipe(
    name="x_mixup_qa",
    method=XMixup(layer=16, sampling_decay=2000.0, alpha=0.2),
    model="xlm-roberta-large",
    epochs=2.0,
    batch_size=64,
    learning_rate=5e-6,
)
X_MIXUP_PAIRS = replace(
    X_MIXUP_QA,
    name="x_mixup_pairs",
    method=XMixup(layer=1, sampling_decay=1000.0, alpha=0.4),
    task="xnli",
    max_tokens=128,
    epochs=4.0,
)
X_MIXUP_TAGGING = replace(
    X_MIXUP_PAIRS,
    name="x_mixup_tagging",
    method=XMixup(layer=4, of_layers=0, sampling_decay=1000.0, alpha=0.8, target_labels="teacher"),
    task="wikiann",
    stride=32,
)

_RECIPES_AND_SENTENCES = (
    (PLAIN_QA, "questions with the standard head; the baseline of the other methods"),
    (PLAIN_TAGGING, "entities, one tag per word, with XTREME's settings"),
    (PLAIN_PAIRS, "sentence pairs with a classifier, with XTREME's settings"),
    (CLISM_QA, "questions that end in [QUE], with CLISM's pre-trained head"),
    (CLISM_NER, "entities, one tag per word, with CLISM's settings"),
    (CLISM_NER_QUE, "entities, one query per label that ends in [QUE], with CLISM's pre-trained head"),
    (CLISM_FEW_SHOT, "clism_qa with 200 steps, for few-shot training"),
    (MPMR_SQUAD, "mPMR on questions of SQuAD, for XQuAD and MLQA"),
    (MPMR_TYDIQA, "mPMR on questions of TyDiQA-GoldP"),
    (MPMR_WIKIANN, "mPMR on entities of WikiAnn, one query per label"),
    (MPMR_CONLL, "mPMR on entities of CoNLL, one query per label"),
    (MPMR_ABSA, "mPMR on targets of sentiments, one query per sentiment"),
    (MPMR_PAWS_X, "mPMR on paraphrases of PAWS-X, one query per label, answered by [CLS]"),
    (MPMR_XNLI, "mPMR on entailment of XNLI, one query per label, answered by [CLS]"),
    (MPMR_PAWS_X_RATIONALES, "mpmr_paws_x for rationales: each sentence is asked by the label and the other sentence"),
    (MPMR_XNLI_RATIONALES, "mpmr_xnli for rationales: each sentence is asked by the label and the other sentence"),
    (TWO_STAGE, "hard learning and answer-aware contrastive learning over a baseline's best answers"),
    (TWO_STAGE_PAPER, "two_stage as the paper has it: the true answer keeps its rank, temperature 10"),
    (TWO_STAGE_HL, "two_stage with hard learning only"),
    (TWO_STAGE_AACL, "two_stage with contrastive learning only"),
    (TWO_STAGE_MML, "two_stage with marginal likelihood beside the plain loss in place of hard learning"),
    (TWO_STAGE_HARD_EM, "two_stage with hard EM beside the plain loss in place of hard learning"),
    (FILTER_QA, "questions beside their translations, fused in 20 of 24 layers, with self-teaching"),
    (FILTER_PAIRS, "sentence pairs beside their translations, fused in one layer, with self-teaching"),
    (FILTER_TAGGING, "entities beside their translations, fused in one layer, with self-teaching"),
    (TRANSLATE_TRAIN_QA, "questions and their translations, each alone: the baseline of filter_qa"),
    (TRANSLATE_TRAIN_PAIRS, "sentence pairs and their translations, each alone: the baseline of filter_pairs"),
    (TRANSLATE_TRAIN_TAGGING, "entities and their translations, each alone: the baseline of filter_tagging"),
    (X_MIXUP_QA, "questions whose translation is mixed in, in layer 16 of 24"),
    (X_MIXUP_PAIRS, "sentence pairs whose translation is mixed in, in layer 1"),
    (X_MIXUP_TAGGING, "entities whose translation is mixed in, in layer 4, with pseudo-labels of a plain model"),
)
FINETUNE_RECIPES = {recipe.name: recipe for recipe, _ in _RECIPES_AND_SENTENCES}
FINETUNE_ABOUT = {recipe.name: sentence for recipe, sentence in _RECIPES_AND_SENTENCES}
"""Name of a recipe → its sentence in `--help`."""


def plain_values(settings: FinetuneRecipe | InferenceSettings) -> dict[str, Any]:
    """Returns the values as JSON has them, with the method's name among its settings."""
    values = asdict(settings)
    return values | {"method": {"name": settings.method.name, **values["method"]}}


@dataclass(frozen=True)
class FinetuneConfig:
    """The configuration of one run. The recipe, the training files and the baseline decide the weights; the dev files
    decide which of them are kept."""

    recipe: FinetuneRecipe
    train: tuple[Path, ...] = ()
    """The training files as the task's authors or XTREME publish them, or dataset folders of their records."""
    train_langs: tuple[str, ...] = ()
    """One language for each file of --train, if the files' names do not say it."""
    dev: tuple[Path, ...] = ()
    """Files with labels. The weights with the best mean of the files' F1 or accuracy are the model. Without dev files,
    the last weights are the model."""
    dev_langs: tuple[str, ...] = ()
    """One language for each file of --dev, if the files' names do not say it."""
    dev_task: str = ""
    """The benchmark whose files --dev names, such as mlqa, if it is not that of --train. Empty: the same."""
    evaluate_every: int = 0
    """Steps between evaluations on the dev files; 0 evaluates once per epoch. The last step is always evaluated."""
    patience: int = 0
    """Stop after this many evaluations in a row without a better score; 0 never stops early."""
    translations: tuple[Path, ...] = ()
    """For a method that reads a record beside its translation, such as filter: the translations of the records of
    --train and of --dev, as folders that `polyspan-train translate` wrote or as XTREME publishes them. They are joined
    by id or by the original text, never by order."""
    translation_langs: tuple[str, ...] = ()
    """The languages of each file of --translations, such as en-de, if the files' names do not say them."""
    baseline: str = ""
    """For a method that learns from a fine-tuned model, as two-stage training from its best answers, the candidates Z:
    the folder of that model or of its run. If empty, it is trained first, in the output folder, with the same recipe
    and the method's first stage, which is the plain loss for two-stage training."""
    output: str = ""
    """The folder to write: the best model, the last one, checkpoints, metrics.jsonl, dev.jsonl, tensorboard/ and
    run.json. To resume a run that was stopped, repeat the command."""
    overwrite: bool = False
    """Start again. A complete run in the output folder is kept until the new one, which is written to `.NAME.new`
    beside it, replaces it; an unfinished run is deleted."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on. auto takes a GPU if there is one."""
    checkpoint_every: int = 500
    """Steps between checkpoints. One more is written at the end, or when SIGTERM or Ctrl-C stops the run."""
    keep_checkpoints: int = 1
    """Number of checkpoints to keep, the newest ones."""
    write_checkpoints: Literal["auto", "background", "foreground"] = "auto"
    """How checkpoints are written: in the background while the training goes on, for which they are copied to the
    host's memory, three times the model's size; or in the foreground. auto: in the background if the device is a
    GPU."""
    stop_after_skipped: int = 5
    """Stop with an error after this many steps in a row whose loss or gradient norm is not finite. Such a step changes
    neither weights nor optimizer state; the log counts it. 1 stops at the first one."""
    micro_batch_tokens: int | None = None
    """Approximate maximum of tokens that go through the encoder at once in each process; 0 takes the whole share of the
    batch. Smaller values take less memory and more time; the loss is the same up to rounding, unless --compile is
    given. None takes 1,024 on a CPU, so that XLM-R base takes less than 8 GB, and 0 on a GPU; run.json has the
    number."""
    activation_checkpointing: bool = False
    """Compute the encoder's layers again in the backward pass, which takes a third more time and far less memory."""
    compile: bool = False
    """Compile the encoder's layers with torch.compile, once for batches of any shape, which takes up to minutes at the
    start. It does not make a CPU faster; it was not measured on a GPU. DeBERTa's layers are never compiled."""
