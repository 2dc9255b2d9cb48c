"""Turns a row of a dataset into token ids and positions, from which a batch is packed. Pure functions without tensors.

Every position counts tokens from the start of the example's own sequence; an answer is its first and LAST token. A row
of clism/1 with one question, whose answer is "Hà Nội":

    position   0    1       2     3   4     5     6    7     8    9
    ids        <s>  [QUE]  ▁is    ▁a ▁city  </s> </s> ▁Hà  ▁Nội  ▁là …
    que = (1,)   source = (1, 5)            target = (7, …)   answers = ((7, 8),)

A row that cannot be used gives a reason instead. A row that loses a question or an answer is used, and its `notes` has
a reason for each, so that the caller can count them:

    truncated_question     its [QUE] is in the cut part of the source: dropped
    truncated_answer       the answer ends in the cut part of its text: dropped
    answer_without_tokens  the tokenizer leaves out all its code points: dropped
    not_on_token_boundary  kept: the fewest tokens that cover it hold more than the answer or, if the tokenizer leaves
                           out code points at its edge, less
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.clism import QUE_TOKEN
from training.data.split_long_text import longest_first
from training.data.tokens import Encoded, TextEncoder, token_span


@dataclass(frozen=True)
class Limits:
    """The most tokens of each text without special tokens, and of the sequence of both texts with special tokens.

    XLM-R puts 4 special tokens around a pair. `longest_first` cuts a source and a target that are too long together; a
    context gets what its query leaves. The recipes set the limits (`training.methods.pretraining_tasks`).
    """

    source: int = 128
    target: int = 128
    query: int = 128
    context: int = 512
    total: int = 512

    def room(self, encoder: TextEncoder) -> int:
        """Returns the most tokens of two texts together."""
        return self.total - len(encoder.pair((), ())[0])


class ClismFeatures(NamedTuple):
    """`<s> masked source </s></s> target </s>` with Q questions (CLISM, 3.1), and the source alone for CACR (3.2)."""

    id: str
    ids: tuple[int, ...]
    que: tuple[int, ...]  # Q: the position of each question's [QUE]
    answers: tuple[tuple[int, int], ...]  # Q
    source: tuple[int, int]  # [start, end) of the masked source, without special tokens
    target: tuple[int, int]
    source_only: tuple[int, ...]  # ids of `<s> source </s>`
    notes: tuple[str, ...] = ()


class WaeFeatures(NamedTuple):
    """`<s> query </s></s> context </s>` with all valid answers (mPMR, 2.1), or none if the query is unanswerable."""

    id: str
    ids: tuple[int, ...]
    context: tuple[int, int]  # [start, end), without special tokens
    answers: tuple[tuple[int, int], ...]  # distinct
    answerable: bool
    notes: tuple[str, ...] = ()


def clism_features(row: Mapping[str, Any], encoder: TextEncoder, limits: Limits) -> ClismFeatures | str:
    """Returns the features of a row of clism/1, or the reason why it cannot be used.

    The reason is a note's if no question is left, or `empty_source` or `empty_target` if the tokenizer leaves out a
    whole text. If a question is dropped for its answer, its [QUE] stays in the source.
    """
    questions = row["questions"]
    que_starts = [question["que_start_char"] for question in questions]
    que_spans = [(start, start + len(QUE_TOKEN)) for start in que_starts]
    masked, que_places = encoder.encode_masked(row["masked_source_text"], que_spans, encoder.que_id)
    source = encoder.ids(row["source_text"])
    target = encoder.encode(row["target_text"])
    if not source:
        return "empty_source"
    if not target.ids:
        return "empty_target"

    most_source, most_target = longest_first(
        min(len(masked), limits.source), min(len(target.ids), limits.target), limits.room(encoder)
    )
    ids, in_source, in_target = encoder.pair(masked[:most_source], target.ids[:most_target])
    notes: list[str] = []
    que_answers = []
    for question, place in zip(questions, que_places, strict=True):
        if place >= most_source:
            notes.append("truncated_question")
            continue
        start_char, end_char = question["answer_start_char"], question["answer_end_char"]
        answer = place_answer(target, start_char, end_char, in_target[0], most_target, notes)
        if answer is not None:
            que_answers.append((in_source[0] + place, answer))
    if not que_answers:
        return notes[0] if notes else "no_question"
    return ClismFeatures(
        id=row["id"],
        ids=ids,
        que=tuple(que for que, _ in que_answers),
        answers=tuple(answer for _, answer in que_answers),
        source=in_source,
        target=in_target,
        source_only=encoder.single(source[: limits.source]),
        notes=tuple(notes),
    )


def wae_features(row: Mapping[str, Any], encoder: TextEncoder, limits: Limits) -> WaeFeatures | str:
    """Returns the features of a row of anchor_mrc/1, or the reason why it cannot be used.

    The reason is a note's if an answerable row loses all its answers, or `empty_query` or `empty_context` if the
    tokenizer leaves out a whole text. The query's masks become the tokenizer's own; any other "[MASK]" in it is text.
    """
    mask_spans = [(span["start_char"], span["end_char"]) for span in row["query_mask_spans"]]
    query, _ = encoder.encode_masked(row["query_text"], mask_spans, encoder.mask_id)
    context = encoder.encode(row["context_text"])
    if not query:
        return "empty_query"
    if not context.ids:
        return "empty_context"

    query = query[: limits.query]
    most_context = min(limits.context, limits.room(encoder) - len(query))
    ids, _, in_context = encoder.pair(query, context.ids[:most_context])
    notes: list[str] = []
    placed = [
        place_answer(context, span["start_char"], span["end_char"], in_context[0], most_context, notes)
        for span in row["answers"]
    ]
    answers = dict.fromkeys(answer for answer in placed if answer is not None)  # two may lie in the same tokens
    if row["answerable"] and not answers:
        return notes[0] if notes else "no_answer"
    return WaeFeatures(
        id=row["id"],
        ids=ids,
        context=in_context,
        answers=tuple(answers),
        answerable=row["answerable"],
        notes=tuple(notes),
    )


def place_answer(
    encoded: Encoded, start_char: int, end_char: int, offset: int, limit: int, notes: list[str]
) -> tuple[int, int] | None:
    """Finds the first and LAST token of an answer, in a sequence whose text begins at `offset`.

    Returns None for a lost answer. Appends the reason for a loss or an inexact position to `notes`. `limit` is the
    number of tokens that are kept of the text.
    """
    span = token_span(encoded, start_char, end_char)
    if span is None:
        notes.append("answer_without_tokens")
        return None
    first, last = span
    if last >= limit:
        notes.append("truncated_answer")
        return None
    if encoded.starts[first] != start_char or encoded.ends[last] != end_char:
        notes.append("not_on_token_boundary")
    return offset + first, offset + last
