"""Every task as machine reading comprehension, solved by mPMR's extractor (mPMR, 3 and table 6; decision 23).

The extractor gives each pair of tokens i <= j a score S_ij, the log-odds that an answer begins with i and ends with j;
that of the [CLS] pair says whether the query is answered at all. The loss is pre-training's, over all pairs.

N windows, T tokens of a packed batch, H size of the extractor's factors; n windows of a tile, R tokens of the longest
context among them, B the most tokens of a span, S starts, K best spans, P spans of all windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.mrc import MrcExample, PairExample, TaggingExample
from training.data.batches import Packed
from training.data.task_batches import MrcBatch, MrcWindow, mrc_batch
from training.data.tokens import TextEncoder
from training.data.windows import question_windows, word_windows
from training.errors import InputError
from training.finetune_recipes import Reading, Unified
from training.loop import Prepare
from training.methods.questions import BEST, WindowAnswers, question_predictions, window_answers
from training.methods.reader import Reader, known_before, seeded
from training.models.folder import Pretrained
from training.models.heads import WaeExtractor
from training.objectives import Loss, at_least_fp32
from training.objectives.spans import TopSpans
from training.objectives.wae import valid_pairs, wae_loss
from training.predictions import Prediction, Span
from training.tasks.queries import pair_queries, tag_queries
from training.tasks.tags import Entity, tags_of

TILE = 1 << 23  # scores in memory at a time, unless one window has more


class LikelySpans(NamedTuple):
    """The spans of one window that are likelier than the threshold. Places count from its own first token."""

    first_K: np.ndarray  # int64
    last_K: np.ndarray  # the LAST token's
    score_K: np.ndarray  # float32: S


@dataclass(frozen=True)
class _Unified:
    """What is the same for all kinds of task."""

    reading: Reading
    encoder: TextEncoder

    @property
    def settings(self) -> Unified:
        assert isinstance(self.reading.method, Unified)
        return self.reading.method

    @property
    def weights(self) -> dict[str, float]:
        return {"wae": 1.0}

    def heads(self, start: Pretrained, seed: int) -> dict[str, nn.Module]:
        hidden_size, of = start.language_model.config.hidden_size, self.settings
        with seeded(seed):
            return known_before({"wae": WaeExtractor(hidden_size, of.extractor_inner, of.extractor_dropout)}, start)

    def batch(self, features: Sequence[MrcWindow]) -> MrcBatch:
        return mrc_batch(features)

    def counts(self, batch: MrcBatch) -> dict[str, int | Tensor]:
        return {"wae": valid_pairs(batch)}

    def passes(self, batch: MrcBatch) -> tuple[Packed, ...]:
        return (batch.inputs,)

    def first_pass(self, model: Reader, batches: Sequence[MrcBatch], prepare: Prepare) -> Sequence[Any]:
        return [None] * len(batches)

    def losses(self, model: Reader, batch: MrcBatch, known: Any) -> dict[str, Loss]:
        return {"wae": wae_loss(*self.factors(model, batch), batch)}

    def factors(self, model: Reader, batch: MrcBatch) -> tuple[Tensor, Tensor]:
        """start_TH, end_TH: S_ij = start_i · end_j."""
        start_TH, end_TH = model.heads["wae"](model.encoder(batch.inputs))
        return start_TH, end_TH


@dataclass(frozen=True)
class UnifiedQuestions(_Unified):
    """The answers to a question are the spans with the best S, and σ(S) is their probability."""

    best: int = BEST  # spans that `outputs` keeps of a window, and `predictions` of a record

    def features(self, records: Sequence[MrcExample]) -> list[MrcWindow]:
        return question_windows(records, self.encoder, self.reading)

    def outputs(self, model: Reader, batch: MrcBatch) -> list[WindowAnswers]:
        factors = self.factors(model, batch)
        top = best_spans(*factors, batch, self.best, self.reading.max_answer_tokens)
        log_p_NK = F.logsigmoid(top.score_NK)  # tells spans apart where σ is 1 in fp32
        return window_answers(top.first_NK, top.last_NK, log_p_NK, F.logsigmoid(-cls_scores(*factors, batch)))

    def predictions(
        self, records: Sequence[MrcExample], features: Sequence[MrcWindow], outputs: Sequence[WindowAnswers]
    ) -> list[Prediction]:
        """The best of each record. `no_answer` is 1 − σ(S of [CLS]) of the window that is most likely answered."""
        return question_predictions(records, features, outputs, self.best)


@dataclass(frozen=True)
class UnifiedTags(_Unified):
    """A sentence is asked for each label in turn: whatever whole words are likely enough are an entity of it."""

    def features(self, records: Sequence[TaggingExample]) -> list[MrcWindow]:
        return label_windows(records, self.encoder, self.reading)

    def outputs(self, model: Reader, batch: MrcBatch) -> list[LikelySpans]:
        longest = self.reading.max_answer_tokens
        return likely_spans(*self.factors(model, batch), batch, self.settings.threshold, longest)

    def predictions(
        self, records: Sequence[TaggingExample], features: Sequence[MrcWindow], outputs: Sequence[LikelySpans]
    ) -> list[Prediction]:
        """Every span of whole words with σ(S) > `threshold`, as far as they do not overlap (`tag_predictions`)."""
        return tag_predictions(records, features, map(_whole_words, features, outputs), self.reading.labels)


@dataclass(frozen=True)
class UnifiedPairs(_Unified):
    """A pair is asked for each label in turn: [CLS] answers the query whose label it has."""

    def features(self, records: Sequence[PairExample]) -> list[MrcWindow]:
        """One window for each label of each record. The end of a pair that is too long is cut, which is its premise's;
        the note `truncated_pair` says so. Raises `InputError` if a record has a label that the reading does not."""
        labels = self.reading.labels
        for each in records:
            if each.label is not None:
                _check_label(each.label, labels, each.id)
        queries = [query for record in records for query in pair_queries(record, labels)]
        windows: list[MrcWindow] = []
        before = -1
        for window in question_windows(queries, self.encoder, self.reading):
            if window.record == before:
                windows[-1] = windows[-1]._replace(notes=tuple(dict.fromkeys((*windows[-1].notes, "truncated_pair"))))
                continue
            before = window.record
            record = window.record // len(labels)
            windows.append(window._replace(record=record, answerable=window.label == records[record].label))
        return windows

    def outputs(self, model: Reader, batch: MrcBatch) -> list[float]:
        """S of [CLS] in each window."""
        scores: list[float] = cls_scores(*self.factors(model, batch), batch).tolist()
        return scores

    def predictions(
        self, records: Sequence[PairExample], features: Sequence[MrcWindow], outputs: Sequence[float]
    ) -> list[Prediction]:
        """The label with the best S; of equally good ones the first. `scores` are σ(S): whether each label is true was
        learnt by itself, so they need not add up to 1."""
        found: list[dict[str, float]] = [{} for _ in records]
        for window, score in zip(features, outputs, strict=True):
            assert window.label is not None
            found[window.record][window.label] = score
        return [
            Prediction(
                record.id,
                (),
                label=max(scores, key=scores.__getitem__, default=None),
                scores={label: _probability(score) for label, score in scores.items()},
            )
            for record, scores in zip(records, found, strict=True)
        ]


def label_windows(records: Sequence[TaggingExample], encoder: TextEncoder, reading: Reading) -> list[MrcWindow]:
    """Of each record first all windows that ask for the first label, then those of the next. Raises `InputError` if a
    record has an entity of none of them."""
    labels = reading.labels
    for record in records:
        for tag in record.tags:
            if tag != "O":
                _check_label(tag[2:], labels, record.id)
    queries = [query for record in records for query in tag_queries(record, labels)]
    words = [record.tokens for record in records for _ in labels]
    windows = word_windows(queries, words, encoder, reading)
    return [each._replace(record=each.record // len(labels)) for each in windows]


def tag_predictions(
    records: Sequence[TaggingExample],
    windows: Sequence[MrcWindow],
    found: Iterable[Iterable[tuple[int, int, float]]],
    labels: Sequence[str],
) -> list[Prediction]:
    """Entities from the spans found in each window: start and end in code points, both at words' edges, and S.

    Of spans that overlap, nested ones included and whatever their labels, the one with the best S stays; of equally
    good ones the earlier, then the shorter, then the label that comes first in `labels`. (Spans are taken from the best
    to the worst, each unless it shares a word with one that was taken.) Where windows overlap, a span has the best of
    its scores.
    """
    best: list[dict[tuple[int, int, int], float]] = [{} for _ in records]
    for window, spans in zip(windows, found, strict=True):
        assert window.label is not None
        label, known = labels.index(window.label), best[window.record]
        for start, end, score in spans:
            known[start, end, label] = max(score, known.get((start, end, label), -np.inf))
    return [_without_overlaps(record, spans, labels) for record, spans in zip(records, best, strict=True)]


def _without_overlaps(
    record: TaggingExample, found: Mapping[tuple[int, int, int], float], labels: Sequence[str]
) -> Prediction:
    """`found`: start, end and the label's number → S."""
    word_starting = {start: word for word, (start, end) in enumerate(record.tokens) if start < end}
    word_ending = {end: word for word, (start, end) in enumerate(record.tokens) if start < end}
    taken: set[int] = set()
    entities, spans = [], []
    for (start, end, label), score in sorted(found.items(), key=lambda each: (-each[1], each[0])):
        entity = Entity(word_starting[start], word_ending[end] + 1, labels[label])
        words = range(entity.start, entity.end)
        if taken.isdisjoint(words):
            taken.update(words)
            entities.append(entity)
            spans.append(Span(start, end, record.text[start:end], _probability(score), entity.type))
    return Prediction(record.id, tuple(sorted(spans)), tags=tags_of(entities, len(record.tokens)))


def cls_scores(start_TH: Tensor, end_TH: Tensor, batch: MrcBatch) -> Tensor:
    """S_N of each window's [CLS] pair, in fp32."""
    cls_N = batch.inputs.bounds_N1[:-1].long()
    return (at_least_fp32(start_TH[cls_N]) * at_least_fp32(end_TH[cls_N])).sum(dim=1)


def best_spans(start_TH: Tensor, end_TH: Tensor, batch: MrcBatch, most: int, longest: int) -> TopSpans:
    """The `most` spans with the best S in each window's context, of at most `longest` tokens; scores are S. Of equal
    spans the earlier comes first, then the shorter."""
    cls_N, context_N = batch.inputs.bounds_N1[:-1].long(), batch.context_N2[:, 0]
    shape = len(cls_N), most
    first_NK, last_NK = context_N.new_full(shape, -1), context_N.new_full(shape, -1)
    score_NK = torch.full(shape, -torch.inf, device=context_N.device)
    for chosen_n, scores_nRB in _tiles(start_TH, end_TH, batch, longest):
        # The K best spans begin at the K starts whose own best spans are best.
        order_nR = scores_nRB.amax(dim=2).argsort(dim=1, descending=True, stable=True)
        starts_nS = order_nR[:, :most].sort(dim=1).values
        scores_nSB = scores_nRB.gather(1, starts_nS.unsqueeze(2).expand(-1, -1, scores_nRB.shape[2]))
        # Not topk, which says nothing about the order of equal spans.
        score_nK, which_nK = (
            each[:, :most] for each in scores_nSB.flatten(1).sort(dim=1, descending=True, stable=True)
        )
        start_nK = starts_nS.gather(1, which_nK.div(scores_nRB.shape[2], rounding_mode="floor"))
        first_nK = (context_N - cls_N)[chosen_n].unsqueeze(1) + start_nK
        none_nK, found = score_nK == -torch.inf, score_nK.shape[1]
        first_NK[chosen_n, :found] = first_nK.masked_fill(none_nK, -1)
        last_NK[chosen_n, :found] = (first_nK + which_nK % scores_nRB.shape[2]).masked_fill(none_nK, -1)
        score_NK[chosen_n, :found] = score_nK.float()
    return TopSpans(first_NK, last_NK, score_NK)


def likely_spans(
    start_TH: Tensor, end_TH: Tensor, batch: MrcBatch, threshold: float, longest: int
) -> list[LikelySpans]:
    """All spans in each window's context with σ(S) > `threshold` and at most `longest` tokens, the earlier first."""
    offsets_N = (batch.context_N2[:, 0] - batch.inputs.bounds_N1[:-1]).cpu().numpy()
    found: list[Any] = [None] * len(offsets_N)
    for chosen_n, scores_nRB in _tiles(start_TH, end_TH, batch, longest):
        likely_nRB = scores_nRB.sigmoid() > threshold
        n_P, start_P, more_P = (each.cpu().numpy() for each in likely_nRB.nonzero(as_tuple=True))
        score_P = scores_nRB[likely_nRB].float().cpu().numpy()
        chosen = chosen_n.tolist()
        edges = np.searchsorted(n_P, np.arange(len(chosen) + 1))
        for row, window in enumerate(chosen):
            own = slice(edges[row], edges[row + 1])
            first = offsets_N[window] + start_P[own]
            found[window] = LikelySpans(first, first + more_P[own], score_P[own])
    return found


def _tiles(start_TH: Tensor, end_TH: Tensor, batch: MrcBatch, longest: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Numbers of windows with contexts of similar length, and scores_nRB of the spans in these: [:, i, b] is S of the
    span of b + 1 tokens from the context's token i, -inf where that reaches beyond the context."""
    context_N = batch.context_N2[:, 0]
    lengths_N = batch.context_N2[:, 1] - context_N
    lengths = lengths_N.tolist()  # waits for the device
    left = sorted(range(len(lengths)), key=lengths.__getitem__)
    while left:
        rows = max(lengths[left[-1]], 1)
        count = min(max(1, TILE // rows**2), len(left))
        chosen_n = torch.tensor(left[-count:], device=context_N.device)
        del left[-count:]

        row_R = torch.arange(rows, device=context_N.device)
        places_nR = (context_N[chosen_n].unsqueeze(1) + row_R).clamp(max=len(start_TH) - 1)
        inside_nR = row_R < lengths_N[chosen_n].unsqueeze(1)
        width = min(longest, rows)
        with torch.autocast(start_TH.device.type, enabled=False):
            scores_nRR = at_least_fp32(start_TH[places_nR]) @ at_least_fp32(end_TH[places_nR]).mT
        scores_nRR = scores_nRR.masked_fill(~inside_nR.unsqueeze(1), -torch.inf)
        # Row i from column i on: of the rows one below the other, the i-th begins i places later.
        padded = F.pad(scores_nRR, (0, width), value=-torch.inf)
        columns = rows + width
        yield chosen_n, padded.as_strided((count, rows, width), (rows * columns, columns + 1, 1))


def _whole_words(window: MrcWindow, found: LikelySpans) -> Iterator[tuple[int, int, float]]:
    """Start and end, in code points, and S of the spans that begin and end where words do."""
    begins, stops = word_edges(window)
    first, last = found.first_K - window.context[0], found.last_K - window.context[0]
    whole = begins[first] & stops[last]
    yield from zip(
        window.starts[first[whole]].tolist(),
        window.ends[last[whole]].tolist(),
        found.score_K[whole].tolist(),
        strict=True,
    )


def word_edges(window: MrcWindow) -> tuple[np.ndarray, np.ndarray]:
    """Of each token of the context: is it the first of a word, is it the last? The window is one of `word_windows`.

    A "▁" that stands alone before a word is neither. Of a word that the window cuts, what it holds counts as the word.
    """
    has_text = window.starts < window.ends
    # Tokens stand at their words' own edges.
    same = (window.starts[1:] == window.starts[:-1]) & has_text[1:] & has_text[:-1]  # word as the token before
    return has_text & ~np.concatenate([[False], same]), has_text & ~np.concatenate([same, [False]])


def _check_label(label: str, labels: Sequence[str], record: str) -> None:
    if label not in labels:
        raise InputError(
            f"{record}: expected a label of {', '.join(labels)}, found {label}. Choose the --task whose labels the "
            "file has"
        )


def _probability(score: float) -> float:
    """σ(S)."""
    return float(np.exp(-np.logaddexp(0.0, -score)))
