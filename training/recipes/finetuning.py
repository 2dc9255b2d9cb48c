"""Named, complete configurations of fine-tuning: one for each setting of the papers. A variant is `replace` on another.

"CLISM" is Chen et al. (NAACL 2022), "mPMR" is Xu et al. (ACL 2023), "two-stage" is Chen et al. (AAAI 2022). Where a
paper is silent, the field says so and whose habit it follows. docs/paper_settings.md has a row for every number and
rule of the recipes that follow a paper.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from training.recipes.task_name import OptionalTask


@dataclass(frozen=True)
class Plain:
    """The standard head of each kind of task: start and end scores, a tag a word, a label a pair. The model's folder is
    one that Hugging Face's AutoModelForQuestionAnswering, …TokenClassification or …SequenceClassification loads."""


@dataclass(frozen=True)
class Que:
    """Questions end in [QUE], which selects start and end with the pre-trained head (CLISM, 3.4). Entities, to compare
    with a tag a word: a query for each label, as mPMR's, that ends in [QUE]."""

    deep_head: bool = False
    """As in ClismObjective; a head of the other kind in the starting model is left aside."""


@dataclass(frozen=True)
class Unified:
    """Every task as machine reading comprehension with mPMR's extractor (mPMR, 3 and table 6)."""

    threshold: float = 0.5
    """Probability above which a span of the context is an entity or target. Papers silent: the released code's."""
    extractor_inner: int = 1024
    """Inner size of the extractor. The paper is silent: the released code's, and that of our pre-training. An extractor
    of another size in the starting model is left aside."""
    extractor_dropout: float = 0.1
    """Inside the extractor: XLM-R's (mPMR, A.1)."""


@dataclass(frozen=True)
class TwoStage:
    """The plain head for questions, trained with what a baseline got wrong: hard learning and answer-aware contrastive
    learning (two-stage, Hard-Learning Algorithm and Answer-Aware Contrastive Learning; decisions 24 and 25)."""

    hard: Literal["weighted", "mml", "hard_em", "none"] = "weighted"
    """weighted: −Σ w_l log P(z_l), w learnt (equation 5); mml: −log Σ P(z_l) (equation 4); hard_em: −log max P(z_l)
    (Min et al. 2019); none: the plain loss of equation 3."""
    gold_first: bool = True
    """The true answer is the first of Z, whatever the baseline's rank for it, so that w can tell it from the wrong
    ones: our choice. False, as in the paper's footnote 1: it keeps its rank, and replaces the last of Z where it has
    none."""
    candidates: int = 20
    """Size of Z, the baseline's best answers, the true one among them (Implementation Details)."""
    contrast_candidates: int = 50
    """Size of A, the model's own best answers in each step (Implementation Details)."""
    temperature: float = 0.1
    """Divides the cosines of equation 8. The paper has 10 (Implementation Details), which leaves next to nothing to
    learn; 0.1 is our choice."""
    alpha: float = 0.5
    """Weight of the contrastive loss; the other's is 1 − α (equation 9; Implementation Details). 0 leaves it out."""


MethodSettings = Plain | Que | Unified | TwoStage
METHODS: dict[str, type[MethodSettings]] = {"plain": Plain, "que": Que, "unified": Unified, "two_stage": TwoStage}
METHOD_NAMES = {kind: name for name, kind in METHODS.items()}


@dataclass(frozen=True)
class InferenceSettings:
    """All that prediction needs to know beside the weights; stands in the model's folder."""

    method: MethodSettings
    kind: Literal["qa", "tagging", "pairs"]
    labels: tuple[str, ...] = ()  # of entities, targets or pairs, in their order; none for questions
    max_tokens: int = 384
    max_query_tokens: int = 64
    stride: int = 128
    max_answer_tokens: int = 30


@dataclass(frozen=True)
class FinetuneRecipe:
    """Everything that decides a run's result besides the data and the model's weights."""

    name: str
    """What it is called in run.json and on the model card."""
    method: MethodSettings
    task: OptionalTask = "squad"
    """The benchmark whose files --train names."""
    model: str = "xlm-roberta-base"
    """A folder, ours or Hugging Face's, or a name on its hub, of the XLM-R family; `tiny`: small, random, its tokenizer
    trained on the records. Two-stage training starts from xlm-roberta-base; CLISM's and mPMR's recipes are for their
    pre-trained models, which --model must name."""
    max_tokens: int = 384
    """The most tokens of a sequence, special tokens included: longer contexts and sentences are read in pieces
    (two-stage, Implementation Details; CLISM, C; mPMR, table 5)."""
    max_query_tokens: int = 64
    """The most tokens of a query; what is longer is cut and counted (two-stage, Implementation Details; mPMR, table 5).
    CLISM is silent."""
    stride: int = 128
    """How many tokens neighbouring pieces share. Papers silent: XTREME's. At most half of what is left for a piece."""
    max_answer_tokens: int = 30
    """Longer spans are never predicted. Papers silent: XTREME's."""
    epochs: float = 3.0
    """Unless `steps` says otherwise (two-stage, Implementation Details; CLISM, C; mPMR, table 5)."""
    steps: int = 0
    """0: as many as the epochs come to. CLISM, C has 200 for few-shot training."""
    batch_size: int = 32
    """Sequences a step, over all processes (CLISM, C; two-stage; mPMR, table 5)."""
    optimizer: Literal["adam", "adamw"] = "adamw"
    """CLISM, C: Adam; two-stage, Implementation Details: AdamW. mPMR names AdamW for pre-training (A.1) and is silent
    on fine-tuning."""
    learning_rate: float = 3e-5
    """At the end of warm-up (CLISM, C; two-stage; mPMR, table 5)."""
    warmup_share: float = 0.1
    """Share of the steps over which the rate rises from 0 (two-stage, Implementation Details). CLISM is silent, and so
    is mPMR, whose recipes have RoBERTa's 0.06. Then the rate falls linearly to 0 at the last step; no paper says so: it
    is the schedule of BERT, of RoBERTa and of Hugging Face's Trainer unless told otherwise."""
    beta1: float = 0.9
    """Papers silent: Adam's own."""
    beta2: float = 0.999
    """Papers silent: Adam's own."""
    epsilon: float = 1e-8
    """Papers silent: Adam's own."""
    weight_decay: float = 0.01
    """Two-stage, Implementation Details; never on biases and norms. CLISM names plain Adam (C), so none. mPMR is
    silent: PyTorch's for AdamW."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to it; 0: never. Papers silent: the habit of Hugging Face's scripts."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the encoder's products; weights and losses are fp32. auto: bf16 on a GPU, fp32 on a CPU. Papers silent."""
    examples: int = 0
    """Few-shot training: how many records to train on, drawn by `sample`; 0: all (CLISM, C: 64 to 1,024)."""
    sample: int = 1
    """Which draw of the examples; no other number depends on it."""
    seed: int = 1
    """Of new weights, order and dropout."""
    stop_loss_factor: float = 0.0
    """Stop where the loss is more than so many times the largest of the last 100 steps; 0: never. One that is no
    number always does."""

    @property
    def warmup_steps(self) -> int:
        """Of `steps`, once those are known."""
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
    """A column of table 5, which the paper gives for mPMR large (A.1); we use it for every size."""
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


MPMR = (
    replace(_mpmr("squad", 64, 384, 8, 3e-5, 3), name="mpmr_squad"),  # XQuAD and MLQA, which have no training files
    _mpmr("tydiqa", 64, 384, 8, 2e-5, 10),
    _mpmr("wikiann", 32, 192, 16, 1e-5, 10),
    _mpmr("conll", 32, 192, 16, 1e-5, 10),
    _mpmr("absa", 32, 192, 32, 2e-5, 20),
    _mpmr("paws_x", 64, 192, 16, 5e-5, 10),
    _mpmr("xnli", 64, 192, 32, 3e-5, 3),
)

TWO_STAGE = FinetuneRecipe(name="two_stage", method=TwoStage(), epochs=8.0)
TWO_STAGE_PAPER = replace(TWO_STAGE, name="two_stage_paper", method=TwoStage(temperature=10.0, gold_first=False))
"""To the letter: docs/paper_settings.md says of every field where it comes from."""
TWO_STAGE_HL = replace(TWO_STAGE, name="two_stage_hl", method=TwoStage(alpha=0.0))
TWO_STAGE_AACL = replace(TWO_STAGE, name="two_stage_aacl", method=TwoStage(hard="none"))
TWO_STAGE_MML = replace(TWO_STAGE, name="two_stage_mml", method=TwoStage(hard="mml"))
TWO_STAGE_HARD_EM = replace(TWO_STAGE, name="two_stage_hard_em", method=TwoStage(hard="hard_em"))

FINETUNE_RECIPES = {
    recipe.name: recipe
    for recipe in (
        *(PLAIN_QA, PLAIN_TAGGING, PLAIN_PAIRS),
        *(CLISM_QA, CLISM_NER, CLISM_NER_QUE, CLISM_FEW_SHOT),
        *MPMR,
        *(TWO_STAGE, TWO_STAGE_PAPER, TWO_STAGE_HL, TWO_STAGE_AACL, TWO_STAGE_MML, TWO_STAGE_HARD_EM),
    )
}

FINETUNE_ABOUT = {
    "plain_qa": "questions with the standard head; the baseline of all",
    "plain_tagging": "entities with a tag a word; XTREME's settings",
    "plain_pairs": "sentence pairs with a classifier; XTREME's settings",
    "clism_qa": "questions that end in [QUE], with CLISM's pre-trained head",
    "clism_ner": "CLISM's settings for entities, which are a tag a word",
    "clism_ner_que": "the same by [QUE], for comparison: a query a label, read by CLISM's pre-trained head",
    "clism_few_shot": "clism_qa in 200 steps, for few examples",
    "mpmr_squad": "mPMR on questions of SQuAD, for XQuAD and MLQA",
    "mpmr_tydiqa": "mPMR on questions of TyDiQA-GoldP",
    "mpmr_wikiann": "mPMR on entities: a query a label",
    "mpmr_conll": "the same on CoNLL",
    "mpmr_absa": "mPMR on targets of sentiments: a query a sentiment",
    "mpmr_paws_x": "mPMR on paraphrases: a query a label, answered by [CLS]",
    "mpmr_xnli": "the same on entailment",
    "two_stage": "hard learning and answer-aware contrastive learning over a baseline's best answers",
    "two_stage_paper": "the same to the letter of the paper: the true answer at its rank, a temperature of 10",
    "two_stage_hl": "hard learning alone",
    "two_stage_aacl": "contrastive learning alone",
    "two_stage_mml": "the paper's ablation with marginal likelihood",
    "two_stage_hard_em": "hard EM in place of hard learning",
}


def plain_values(of: FinetuneRecipe | InferenceSettings) -> dict[str, Any]:
    """As JSON has it, the method by name."""
    values = asdict(of)
    return values | {"method": {"name": METHOD_NAMES[type(of.method)], **values["method"]}}


@dataclass(frozen=True)
class FinetuneConfig:
    """One run. Only `recipe`, the training files and the baseline decide its weights; the dev files which are kept."""

    recipe: FinetuneRecipe
    train: tuple[Path, ...] = ()
    """Files as the task's authors or XTREME publish them, or dataset folders of their records."""
    train_langs: tuple[str, ...] = ()
    """One for each file of --train, where its name does not say it."""
    dev: tuple[Path, ...] = ()
    """Files to choose the best weights by, the mean of their main figures; none: the last weights are the model."""
    dev_langs: tuple[str, ...] = ()
    """As --train-langs."""
    dev_task: str = ""
    """Whose files --dev names, where they are another task's: mlqa, say. Empty: the recipe's."""
    evaluate_every: int = 0
    """Steps between evaluations on the dev files; 0: once an epoch. There is always one at the end."""
    patience: int = 0
    """Stop after so many evaluations in a row that found nothing better; 0: never."""
    baseline: str = ""
    """Two-stage training: the fine-tuned model whose best answers are Z. Empty: one is trained first, in the output
    folder, with the same recipe and the plain loss."""
    output: str = ""
    """The folder to write: the best model, the last, checkpoints, metrics.jsonl, dev.jsonl, tensorboard/ and run.json.
    Repeat the command to go on with a run that was stopped."""
    overwrite: bool = False
    """Begin anew. A complete run in the output folder stays until the new one, made in `.NAME.new` beside it, takes its
    place; an unfinished one is deleted."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    checkpoint_every: int = 500
    """Steps. There is always one at the end, and one more when the run is asked to stop (SIGTERM, Ctrl-C)."""
    keep_checkpoints: int = 1
    """How many of the last checkpoints stay."""
    micro_batch_tokens: int = 0
    """The most tokens that go through the encoder at once, about, in each process; 0: its whole share of the batch.
    Smaller takes less memory and more time; the loss is the same."""
    activation_checkpointing: bool = False
    """Compute the encoder's layers again in the backward pass: a third more time, far less memory."""
    compile: bool = False
    """Compile the encoder's layers with torch.compile: minutes at the start, faster steps on a GPU."""
