"""Declares each fine-tuning method: its settings, and what the rest of the trainer must know. It needs no torch.

A new method is a subclass of `MethodSettings` here with an entry in `METHODS`, its formulations in `training/methods/`,
and its recipes in `training/recipes/finetuning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from schemas.errors import ConfigError

_Paths = Mapping[str, str]  # key → "module:class"


class RunData(NamedTuple):
    """What training needs besides the records."""

    fields: Mapping[str, Any]
    """Field of the formulation → its value."""
    fingerprint: str | None = None
    """The data's checksum, for run.json. A method with a first stage must give one."""


@dataclass(frozen=True)
class MethodSettings:
    """What every method declares. The fields of a subclass are options of the command line and entries of run.json."""

    name: ClassVar[str]
    """The method's name in run.json and polyspan.json."""
    formulations: ClassVar[_Paths]
    """Kind of task → "module:class" of its `Formulation`, which is imported only when a model is built."""
    uses_standard_head: ClassVar[bool] = False
    """True if prediction reads the standard head of the kind of task, which transformers loads too."""
    heads: ClassVar[_Paths] = {}
    """The other heads that prediction reads: name in heads.safetensors → "module:class"."""
    needs_que_token: ClassVar[bool] = False
    """True if [QUE] must be in the vocabulary."""
    run_data: ClassVar[str] = ""
    """"module:function" of what training needs besides the records, if anything: (config, records) → `RunData`. It runs
    on all ranks, after the first stage, whose model is `config.baseline`."""

    rationales: ClassVar[_Paths] = {}
    """Kind of task → "module:function" that adds the words that explain a prediction, for `predict --rationales`:
    (formulation, records, predictions, predict, best) → predictions."""

    def check(self, kind: str) -> None:
        """Raises `ConfigError` if the settings cannot work for this kind of task."""

    def first_stage(self) -> MethodSettings | None:
        """Returns the method of the run whose model this method learns from, or None if it needs no such run. That run
        has the same recipe otherwise, and its folder is `baseline/` in this run's folder."""
        return None


@dataclass(frozen=True)
class Plain(MethodSettings):
    """The standard head of each kind of task: start and end scores, one tag per word, or one label per pair. Hugging
    Face's AutoModelForQuestionAnswering, …TokenClassification or …SequenceClassification loads the model's folder."""

    name = "plain"
    formulations: ClassVar[_Paths] = {
        "qa": "training.methods.questions:PlainQuestions",
        "tagging": "training.methods.tags:PlainTags",
        "pairs": "training.methods.pairs:PlainPairs",
    }
    uses_standard_head = True


@dataclass(frozen=True)
class Que(MethodSettings):
    """Questions end in [QUE], which selects start and end with the pre-trained head (CLISM, 3.4). For entities, which
    the paper tags, each label has a query as in mPMR that ends in [QUE]."""

    name = "que"
    formulations: ClassVar[_Paths] = {
        "qa": "training.methods.questions:QueQuestions",
        "tagging": "training.methods.que_tags:QueTags",
    }
    heads: ClassVar[_Paths] = {"span": "training.models.heads:SpanHead"}
    needs_que_token = True

    deep_head: bool = False
    """True: put a layer in front of each side of the span head, as Splinter does; False: a linear head, as in the
    paper. A head of the other kind in the starting model is not used."""


@dataclass(frozen=True)
class Unified(MethodSettings):
    """Every task is machine reading comprehension with mPMR's extractor (mPMR, 3 and table 6)."""

    name = "unified"
    formulations: ClassVar[_Paths] = {
        "qa": "training.methods.unified:UnifiedQuestions",
        "tagging": "training.methods.unified:UnifiedTags",
        "pairs": "training.methods.unified_pairs:UnifiedPairs",
    }
    heads: ClassVar[_Paths] = {"wae": "training.models.heads:WaeExtractor"}
    rationales: ClassVar[_Paths] = {"pairs": "training.methods.rationales:with_rationales"}

    cells: Literal["auto", "cls", "context", "all"] = "auto"
    """The scores that the loss is over. context: those of all spans of the text; cls: that of [CLS], which says whether
    the query has an answer; all: both. auto: cls for pairs (mPMR, section 4), context for other tasks, as in the
    released code. Pairs need cls, other tasks need context. With all, questions without an answer are learnt, too."""
    template: Literal["label", "sentences"] = "label"
    """The queries for a pair. label: one for each label, which describes it, asked of both sentences (mPMR, table 6);
    sentences: two for each label, the label and one sentence, asked of the other (mPMR, section 4, for rationales)."""
    threshold: float = 0.5
    """Probability above which a span of the context is an entity or target. The paper is silent: this is the released
    code's value."""
    extractor_inner: int = 1024
    """Inner size of the extractor. The paper is silent: this is the value of the released code and of our pre-training.
    An extractor of another size in the starting model is not used."""
    extractor_dropout: float = 0.1
    """Dropout inside the extractor: XLM-R's (mPMR, A.1)."""

    def cells_of(self, kind: str) -> str:
        """Returns what the loss is over for this kind of task: cls, context or all."""
        return ("cls" if kind == "pairs" else "context") if self.cells == "auto" else self.cells

    def check(self, kind: str) -> None:
        if (needed := "cls" if kind == "pairs" else "context") not in (cells := self.cells_of(kind)) and cells != "all":
            raise ConfigError(f"--cells {cells} trains nothing that {kind} needs. Expected {needed}, all or auto")


@dataclass(frozen=True)
class TwoStage(MethodSettings):
    """The plain head for questions, trained with a baseline's wrong answers: hard learning and answer-aware contrastive
    learning (two-stage, Hard-Learning Algorithm and Answer-Aware Contrastive Learning; decisions 24 and 25)."""

    name = "two_stage"
    formulations: ClassVar[_Paths] = {"qa": "training.methods.two_stage:TwoStageQuestions"}
    uses_standard_head = True
    run_data = "training.inference.candidates:run_candidates"

    hard: Literal["weighted", "mml", "hard_em", "none"] = "weighted"
    """The loss over the candidates Z. weighted: −Σ w_l log P(z_l), where w is learnt (equation 5); mml: −log Σ P(z_l)
    (equation 4); hard_em: −log max P(z_l) (Min et al. 2019); none: the plain loss of equation 3."""
    gold_first: bool = True
    """True: the true answer is the first of Z, whatever rank the baseline gave it, so that w can tell it from the wrong
    ones; mml and hard_em become means with the plain loss of equation 3, which names it. This is our choice. False, as
    in the paper's footnote 1: it keeps its rank, and replaces the last of Z if the baseline did not find it. Then mml
    and hard_em unlearn the answer: any candidate is as good to them."""
    candidates: int = 20
    """Size of Z, the baseline's best answers, which include the true one (Implementation Details)."""
    contrast_candidates: int = 50
    """Size of A, the model's own best answers in each step (Implementation Details)."""
    temperature: float = 0.1
    """Divides the cosines of equation 8. The paper has 10 (Implementation Details), which leaves almost nothing to
    learn; 0.1 is our choice."""
    alpha: float = 0.5
    """Weight of the contrastive loss; the other loss has 1 − α (equation 9; Implementation Details). 0 turns the
    contrastive loss off."""

    def first_stage(self) -> MethodSettings | None:
        return None if self.hard == "none" else Plain()


METHODS: dict[str, type[MethodSettings]] = {method.name: method for method in (Plain, Que, Unified, TwoStage)}
"""Every method by its name."""


def check_method(method: MethodSettings, kind: str) -> None:
    """Raises `ConfigError` if the method has no formulation for this kind of task."""
    if kind not in method.formulations:
        able = [name for name, other in METHODS.items() if kind in other.formulations]
        raise ConfigError(
            f"method {method.name} has nothing for {kind}. Methods for it: {', '.join(able)}. "
            "Take a recipe of one of those"
        )
    method.check(kind)
