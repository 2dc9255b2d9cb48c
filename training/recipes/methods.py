"""Declares each fine-tuning method: its settings, and what the rest of the trainer must know. It needs no torch.

A new method is a subclass of `MethodSettings` here with an entry in `METHODS`, its formulations in `training/methods/`,
and its recipes in `training/recipes/finetuning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from schemas.errors import ConfigError

_Paths = Mapping[str, str]  # key → "module:class"


class RunData(NamedTuple):
    """What training needs besides the records."""

    fields: Mapping[str, Any]
    """Field of the formulation → its value."""
    fingerprint: str | None = None
    """The data's checksum, for run.json. A method with a first stage must give one."""
    files: Mapping[str, str] = {}
    """Name of each file that was read → its SHA-256, for run.json."""
    lines: Sequence[str] = ()
    """What the log says of the data."""


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
    reads_translations: ClassVar[bool] = False
    """True if the method reads a record beside its translation, in training and in prediction."""
    needs_que_token: ClassVar[bool] = False
    """True if [QUE] must be in the vocabulary."""
    asks_for_labels: ClassVar[bool] = False
    """True if the method reads a query for each label, of entities or of pairs (mPMR, table 6)."""
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
    asks_for_labels = True

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
    asks_for_labels = True
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


@dataclass(frozen=True)
class Filter(MethodSettings):
    """Reads a text beside its translation and fuses both in the encoder's middle layers. A second model, the student,
    also learns from the probabilities that the first, the teacher, gives the translation (FILTER, Fang et al. 2021)."""

    name = "filter"
    formulations: ClassVar[_Paths] = {
        "qa": "training.methods.filter:FilterQuestions",
        "tagging": "training.methods.filter:FilterTags",
        "pairs": "training.methods.filter:FilterPairs",
    }
    uses_standard_head = True
    reads_translations = True
    run_data = "training.inference.soft_labels:parallel_data"

    local_layers: int = 1
    """m: the number of first layers that read each text alone, of an encoder with --of-layers layers (FILTER, Appendix:
    1 is best for classification and tagging)."""
    fusion_layers: int = 1
    """k: the number of layers after these that read both texts together (FILTER, Appendix: 1 is best for classification
    and tagging, 20 for questions). 0 with --local-layers 24 is translate-train; 24 with --local-layers 0 concatenates
    the two texts."""
    of_layers: int = 24
    """The number of layers that --local-layers and --fusion-layers are counted for; in another encoder both are scaled.
    24 is XLM-R large, which the paper uses."""
    self_teaching: float = 0.0
    """Weight of the divergence from the teacher's probabilities; the loss of the translation's labels has 1 minus it
    (FILTER, equation 6: 1 − λ; 0.5 for classification, 0.1 for questions, 1 for tagging). 0 trains no student."""
    temperature: float = 1.0
    """Softens the probabilities of teacher and student. The paper does not say: 1 leaves them as they are."""
    pairs_from: Literal["target", "source", "both"] = "target"
    """Whose probabilities classify a pair: the record's own (target), its translation's (source), or the mean of both.
    The paper takes "either source or target" (Inference)."""
    source_lang: str = "en"
    """Language of the training records. In prediction, a record is read beside its translation into this language."""

    def first_stage(self) -> MethodSettings | None:
        return replace(self, self_teaching=0.0) if self.self_teaching else None

    def layers(self, layers: int) -> tuple[int, int]:
        """Returns m and k for an encoder of this many layers. A number above 0 stays above 0."""
        fusion = scaled_layers(self.fusion_layers, self.of_layers, layers)
        local = min(scaled_layers(self.local_layers, self.of_layers, layers), layers - (fusion > 0))
        return local, min(fusion, layers - local)

    def check(self, kind: str) -> None:
        if min(self.local_layers, self.fusion_layers) < 0 or self.local_layers + self.fusion_layers > self.of_layers:
            raise ConfigError(
                f"--local-layers {self.local_layers} and --fusion-layers {self.fusion_layers}: expected numbers from 0 "
                f"that are {self.of_layers} or less together (--of-layers)"
            )
        if not 0 <= self.self_teaching <= 1:
            raise ConfigError(f"--self-teaching: expected 0 to 1, found {self.self_teaching}")
        if self.temperature <= 0:
            raise ConfigError(f"--temperature: expected a number above 0, found {self.temperature}")


def scaled_layers(number: int, of_layers: int, layers: int) -> int:
    """Returns `number` of `of_layers` layers in an encoder of `layers`, rounded; at least 1 if `number` is.

    >>> [scaled_layers(number, 24, 12) for number in (0, 1, 16, 20, 24)]
    [0, 1, 8, 10, 12]
    """
    return max(int(number > 0), round(number * layers / of_layers))


@dataclass(frozen=True)
class XMixup(MethodSettings):
    """Mixes the representations of a text's translation into its own, in one layer of the encoder, and brings both
    texts' representations and predictions near each other (X-Mixup, Yang et al. 2022; decisions 26 to 30)."""

    name = "x_mixup"
    formulations: ClassVar[_Paths] = {
        "qa": "training.methods.x_mixup:XMixupQuestions",
        "tagging": "training.methods.x_mixup:XMixupTags",
        "pairs": "training.methods.x_mixup:XMixupPairs",
    }
    uses_standard_head = True
    heads: ClassVar[_Paths] = {"mixing": "training.models.heads:MixingRatio"}
    reads_translations = True
    run_data = "training.inference.pseudo_labels:mixup_data"

    mixup: bool = True
    """Mix representations, in training and in prediction (X-Mixup, 4.1). Off in an ablation of table 5."""
    layer: int = 16
    """The layer in which representations are mixed, counted from 1, of an encoder with --of-layers layers (X-Mixup,
    5.1: 1 for classification, 4 for tagging, 16 for questions)."""
    of_layers: int = 24
    """The number of layers that --layer is counted for; in another encoder it is scaled, as the paper's 16th layer of
    24 becomes the 8th of 12 (X-Mixup, 5.1). 0: it is not scaled, and is the last layer at most."""
    ratio: Literal["entropy", "constant"] = "entropy"
    """The share of the translation's representations. entropy: from the entropy of the attention between both texts, so
    that a poor translation can count less (X-Mixup, 4.1); constant: --max-ratio for all, an ablation of table 5."""
    max_ratio: float = 0.5
    """λ0, the largest share of the translation's representations (X-Mixup, 4.1)."""
    sampling_decay: float = 1000.0
    """k of scheduled sampling: at step i, a source text is the real one with probability k / (k + exp(i / k)), and
    otherwise the translation of the target back (X-Mixup, 4.1; table 10: 1,000, and 2,000 for questions). Such
    translations are among --translations; without one, the real text is taken. 0 always takes the real text, an
    ablation of table 5."""
    alpha: float = 0.4
    """α, the weight of the source's task loss; the target's has 1 − α (X-Mixup, equation 8; table 10: 0.4 for
    classification, 0.8 for tagging, 0.2 for questions)."""
    mse_weight: float = 1.0
    """Weight of the mean squared error between the representations of both texts (X-Mixup, equation 7). 0 leaves it
    out, an ablation of table 9."""
    kl_weight: float = 1.0
    """For pairs, weight of KL(p_source ‖ p_target), the divergence between the predictions for both texts (X-Mixup,
    equation 7). 0 leaves it out, an ablation of table 9."""
    target_labels: Literal["given", "teacher"] = "given"
    """The labels of the targets. given: those of the translations; teacher: the probabilities that a plain model, which
    is trained first, gives the translations alone (X-Mixup, 4.2, for tagging)."""
    source_lang: str = "en"
    """Language of the training records. In prediction, the representations of a record's translation into this language
    are mixed into the record's."""

    def first_stage(self) -> MethodSettings | None:
        return Plain() if self.target_labels == "teacher" else None

    def layer_in(self, layers: int) -> int:
        """Returns the layer of the mixture, counted from 1, in an encoder of this many layers.

        >>> [XMixup(layer=layer, of_layers=24).layer_in(12) for layer in (1, 4, 16)]
        [1, 2, 8]
        >>> XMixup(layer=4, of_layers=0).layer_in(12)
        4
        """
        return min(scaled_layers(self.layer, self.of_layers, layers) if self.of_layers else self.layer, layers)

    def check(self, kind: str) -> None:
        if self.layer < 1 or self.of_layers < 0 or (self.of_layers and self.layer > self.of_layers):
            raise ConfigError(f"--layer {self.layer}: expected 1 to {self.of_layers or 'any'} (--of-layers)")
        for name in ("max_ratio", "alpha"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"--{name.replace('_', '-')}: expected 0 to 1, found {getattr(self, name)}")
        for name in ("sampling_decay", "mse_weight", "kl_weight"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--{name.replace('_', '-')}: expected 0 or more, found {getattr(self, name)}")


METHODS: dict[str, type[MethodSettings]] = {
    method.name: method for method in (Plain, Que, Unified, TwoStage, Filter, XMixup)
}
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
