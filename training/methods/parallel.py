"""Reads a record beside its translation: the base of the methods that train on parallel text (FILTER, X-Mixup).

    record, its translations → pairs of features → batches → the encoder → scores of both sides → losses, predictions

The features, heads, losses and predictions of each side are those of the plain method (`PLAIN`). *Source* is the text
in the language of the training records (`source_lang`), *target* the text in another language:

    training     the record is the source, and each of its translations a target
    prediction   the record is the target, and its translation into `source_lang` the source;
                 a record without a translation, such as one in `source_lang`, is read beside itself

Shapes: N pairs; T tokens of a batch, in which each source is followed by its target:

    inputs     <s> a b </s> | <s> x </s> | <s> c </s> | <s> y z </s>        2N sequences
    source_T    0  1 2  3                   7 8  9                         positions of the sources' tokens
    target_T                   4  5  6                   10 11 12 13
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from schemas.errors import InputError
from training.data.batches import Movable, Packed, pack
from training.data.tokens import TextEncoder
from training.data.windows import taught
from training.methods.base import EncoderWithHeads, OnePass
from training.methods.pairs import PlainPairs
from training.methods.questions import PlainQuestions
from training.methods.tags import PlainTags
from training.models.folder import Pretrained
from training.objectives import Loss
from training.recipes.finetuning import InferenceSettings
from training.tasks.files import Record
from training.tasks.predictions import Prediction
from training.tasks.translations import Translations

Scores = tuple[Tensor, ...]
"""Scores of the classes of each row, (R, C): rows are windows and classes tokens, for start and for end; or rows are
words or pairs, and classes their labels. -inf where a row has no such class."""

Rows = tuple[np.ndarray, ...]
"""A teacher's probabilities for one feature, in the form of `Scores`: float32, (rows, classes)."""

PLAIN = {"qa": PlainQuestions, "tagging": PlainTags, "pairs": PlainPairs}


class TeacherLabels(NamedTuple):
    """A teacher's probabilities for the target of each of a run's training features."""

    name: str  # for messages
    rows: Sequence[Rows]
    labels: tuple[str, ...]  # that the teacher knows
    sequences_sha256: str  # `sequences_digest` of the features that the teacher labelled


class ParallelFeatures(NamedTuple):
    """The features of a source and of a target: of two texts that say the same."""

    id: str
    record: int  # index of the record
    source: Any  # `MrcWindow`, `TagWindow` or `PairFeatures`
    target: Any
    notes: tuple[str, ...] = ()
    soft: Rows = ()  # the teacher's probabilities for the target
    back: Any = None  # the features of the target's translation back into the source's language, if there is one

    @property
    def target_lang(self) -> str:
        """Returns the target's language, which ends the id of a training feature: "56be… (de)"."""
        return self.id.rpartition("(")[2].removesuffix(")")

    @property
    def ids(self) -> np.ndarray:
        """Returns all tokens that the pair takes."""
        return np.concatenate([self.source.ids, self.target.ids])


@dataclass(frozen=True)
class ParallelBatch(Movable):
    """N pairs. `source` and `target` are batches of the plain method, whose positions count within their own side."""

    inputs: Packed  # 2N sequences: each source is followed by its target
    pair_bounds_N1: Tensor  # int32: pair n is inputs.ids_T[pair_bounds_N1[n] : pair_bounds_N1[n + 1]]
    longest_pair: int  # tokens
    source_T: Tensor  # positions in `inputs` of the sources' tokens
    target_T: Tensor
    source: Any  # `MrcBatch`, `TagBatch` or `PairBatch`
    target: Any
    soft: tuple[Tensor, ...]  # the teacher's probabilities of the target, (R, C) each; empty without a teacher
    example_ids: tuple[str, ...]  # N


@dataclass(frozen=True)
class Parallel(OnePass):
    """What the methods of parallel text share. A subclass gives the losses, and how the encoder reads a batch."""

    settings: InferenceSettings
    encoder: TextEncoder
    translations: Translations = field(default_factory=Translations, repr=False, kw_only=True)
    soft_labels: TeacherLabels | None = field(default=None, repr=False, kw_only=True)

    kind: ClassVar[str]
    unit = "texts beside a translation"

    @cached_property
    def plain(self) -> Any:
        """The plain method, which reads one side."""
        return PLAIN[self.kind](self.settings, self.encoder)

    @property
    def method(self) -> Any:
        return self.settings.method

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        return self.plain.heads(start, seed)

    # --- features -----------------------------------------------------------------------------------------------------

    def training_features(self, records: Sequence[Record]) -> list[ParallelFeatures]:
        """Returns the pairs of every record with each of its translations, in the order of the languages' codes.

        Of a long text each side has several windows. They are paired by their order, so that the i-th part of the one
        is read beside the i-th part of the other. Records without a translation give none, and so do pairs of which
        neither side has a label. Raises `InputError` if the teacher's soft labels are of other sequences.
        """
        pairs = [
            (index, translation)
            for index, record in enumerate(records)
            for translation in self.translations.of(record).values()
        ]
        sources = by_record(without_lost_labels(self.plain.features(records)), len(records))
        targets = by_record(
            without_lost_labels(self.plain.features([translation.record() for _, translation in pairs])), len(pairs)
        )
        found: list[ParallelFeatures] = []
        for number, (index, translation) in enumerate(pairs):
            own = targets[number]
            if translation.labels == "unknown":
                own = [window.without_labels() for window in own]
            for source, target in aligned(sources[index], own, max(len(sources[index]), len(own))):
                if source.labelled or target.labelled:
                    id_ = f"{source.id} ({translation.target_lang})"
                    found.append(ParallelFeatures(id_, index, source, target, (*source.notes, *target.notes)))
        return found if self.soft_labels is None else self._with_soft_labels(found, self.soft_labels)

    def _with_soft_labels(self, features: list[ParallelFeatures], teacher: TeacherLabels) -> list[ParallelFeatures]:
        """Raises `InputError` if the teacher labelled other sequences, or with other labels."""
        if teacher.labels != self.settings.labels:
            raise InputError(
                f"{teacher.name}: the teacher has the labels {', '.join(teacher.labels)}, but the student "
                f"{', '.join(self.settings.labels)}. Train both on the same task"
            )
        if teacher.sequences_sha256 != sequences_digest(features):
            raise InputError(
                f"{teacher.name}: the teacher labelled other sequences than the student's. Both need the same "
                "tokenizer, records, translations and limits of tokens: leave --baseline out to train such a teacher"
            )
        return [pair._replace(soft=soft) for pair, soft in zip(features, teacher.rows, strict=True)]

    def features(self, records: Sequence[Record]) -> list[ParallelFeatures]:
        """Returns the features of prediction: each window of a record beside the part of its translation that it
        corresponds to."""
        beside = [self.translation_of(record) for record in records]
        own = by_record(self.plain.features(records), len(records))
        others = by_record(
            self.plain.features([other or record for other, record in zip(beside, records, strict=True)]), len(records)
        )
        found: list[ParallelFeatures] = []
        for index, record in enumerate(records):
            sources = others[index] or own[index]  # the tokenizer may leave nothing of a translation
            alone = beside[index] is None and record.lang != self.method.source_lang
            notes: tuple[str, ...] = ("without_translation",) if alone else ()
            for source, target in aligned(sources, own[index], len(own[index])):
                found.append(ParallelFeatures(target.id, index, source, target, (*notes, *target.notes)))
                notes = ()
        return found

    def translation_of(self, record: Record) -> Record | None:
        """Returns the record's translation into `source_lang`, or None."""
        if record.lang == self.method.source_lang:
            return None
        translation = self.translations.of(record).get(self.method.source_lang)
        return translation.record() if translation else None

    def batch(self, features: Sequence[ParallelFeatures]) -> ParallelBatch:
        inputs = pack([side.ids for pair in features for side in (pair.source, pair.target)])
        lengths = inputs.bounds_N1.diff().long()
        is_target_T = (torch.arange(len(lengths)) % 2 == 1).repeat_interleave(lengths)
        pair_bounds_N1 = inputs.bounds_N1[::2].clone()
        return ParallelBatch(
            inputs=inputs,
            pair_bounds_N1=pair_bounds_N1,
            longest_pair=int(pair_bounds_N1.diff().max()) if len(features) else 0,
            source_T=(~is_target_T).nonzero().squeeze(1),
            target_T=is_target_T.nonzero().squeeze(1),
            source=self.plain.batch([pair.source for pair in features]),
            target=self.plain.batch([pair.target for pair in features]),
            soft=_soft_batch([pair.soft for pair in features]),
            example_ids=tuple(pair.id for pair in features),
        )

    # --- training and prediction --------------------------------------------------------------------------------------

    def hidden(self, model: EncoderWithHeads, batch: ParallelBatch) -> Tensor:
        """Returns the last layer's representations of all tokens of `inputs`, (T, D)."""
        raise NotImplementedError

    def scores(self, model: EncoderWithHeads, batch: ParallelBatch) -> tuple[Scores, Scores]:
        """Returns the scores of the sources and of the targets."""
        return self.side_scores(model, self.hidden(model, batch), batch)

    def side_scores(self, model: EncoderWithHeads, hidden_TD: Tensor, batch: ParallelBatch) -> tuple[Scores, Scores]:
        """Returns what `scores` returns, from the result of `hidden`."""
        return (
            self.plain.scores(model, hidden_TD[batch.source_T], batch.source),
            self.plain.scores(model, hidden_TD[batch.target_T], batch.target),
        )

    def labelled(self, side: Any) -> int | Tensor:
        """Counts the labels of a batch of the plain method."""
        (count,) = self.plain.counts(side).values()
        return count

    def task_losses(self, batch: ParallelBatch, source: Scores, target: Scores) -> dict[str, Loss]:
        """Returns the plain loss of each side."""
        return {
            "source": self.plain.loss_of(source, batch.source),
            "target": self.plain.loss_of(target, batch.target),
        }

    def outputs(self, model: EncoderWithHeads, batch: ParallelBatch) -> list[Any]:
        """Returns the plain method's outputs of the targets."""
        _, target = self.scores(model, batch)
        return self.plain.outputs_of(target, batch.target)

    def predictions(
        self, records: Sequence[Record], features: Sequence[ParallelFeatures], outputs: Sequence[Any]
    ) -> list[Prediction]:
        return self.plain.predictions(records, [pair.target for pair in features], outputs)


def sequences_digest(features: Sequence[ParallelFeatures]) -> str:
    """Returns a checksum of the tokens of all pairs."""
    digest = hashlib.sha256()
    for pair in features:
        for side in (pair.source, pair.target):
            digest.update(np.asarray(side.ids, np.int32).tobytes() + b"\n")
    return digest.hexdigest()


def aligned(sources: Sequence[Any], targets: Sequence[Any], pairs: int) -> list[tuple[Any, Any]]:
    """Pairs the windows of two texts by their order; each side's are spread evenly. Returns none if a side has none.

    >>> aligned("ab", "xyz", 3)
    [('a', 'x'), ('a', 'y'), ('b', 'z')]
    """
    if not sources or not targets:
        return []
    return [(sources[i * len(sources) // pairs], targets[i * len(targets) // pairs]) for i in range(pairs)]


def side_outputs(method: Parallel, scores: tuple[Scores, Scores], batch: ParallelBatch, sides: str) -> list[np.ndarray]:
    """Returns P(label) of each pair from the sides that classify it: "target", "source" or the mean of "both"."""
    outputs = {
        name: method.plain.outputs_of(of_side, side)
        for name, of_side, side in zip(("source", "target"), scores, (batch.source, batch.target), strict=True)
        if sides in (name, "both")
    }
    if sides != "both":
        return outputs[sides]
    return [(source + target) / 2 for source, target in zip(outputs["source"], outputs["target"], strict=True)]


def by_record(features: Sequence[Any], records: int) -> list[list[Any]]:
    """Returns the features of each record, in their order."""
    of_record: list[list[Any]] = [[] for _ in range(records)]
    for feature in features:
        of_record[feature.record].append(feature)
    return of_record


def without_lost_labels(features: Sequence[Any]) -> list[Any]:
    """Takes the labels of queries that lost all their answers: as they are, they would teach that there is none."""
    kept = {id(feature) for feature in taught(features)}
    return [feature if id(feature) in kept else feature.without_labels() for feature in features]


def _soft_batch(soft: Sequence[Rows]) -> tuple[Tensor, ...]:
    """Joins the rows of all features, with probability 0 beyond a row's own classes."""
    found = []
    for of_features in zip(*soft, strict=True):
        classes = max(rows.shape[1] for rows in of_features)
        padded = [np.pad(rows, ((0, 0), (0, classes - rows.shape[1]))) for rows in of_features]
        found.append(torch.from_numpy(np.concatenate(padded)))
    return tuple(found)
