"""Cuts a text into sentences, and longer sentences into pieces that a translation model can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from schemas.spans import CharSpan

_CLOSING = r"[\"'”’»)\]」』）】]*"
# A sentence ends at a line break; at a full stop before a blank, unless a small letter follows; at one of Han script.
_END = re.compile(rf"\s*[\n\r\u2028\u2029]\s*|(?<=[.!?…؟۔।॥]){_CLOSING}\s+|(?<=[。！？｡]){_CLOSING}\s*")
_BOUNDARIES = (
    re.compile(r"(?<=[;:])\s+|(?<=[；：])\s*(?=\S)"),
    re.compile(r"(?<=,)\s+|(?<=[，、،])\s*(?=\S)"),
    re.compile(r"\s+"),
)
"""Where a sentence may be cut, the best first."""
_ABBREVIATIONS = frozenset(
    "al approx bzw ca capt cf co corp dept dr ed eds etc fig fr gov hon inc jr lt ltd messrs mr mrs ms mt nr op pp "
    "prof rev sen sgt sr sra st str usw vol vs".split()
)
_LINE_BREAKS = frozenset("\n\r\u2028\u2029")


def sentences(text: str) -> list[CharSpan]:
    """Returns the sentences of a text, without the white space around them.

    A full stop after an initial, a number of one or two digits or a common abbreviation ends no sentence: a sentence
    that is too long does less harm than half a sentence.

    >>> text = "Mr. J. Smith won. Who lost?"
    >>> [span.of(text) for span in sentences(text)]
    ['Mr. J. Smith won.', 'Who lost?']
    """
    spans, start = [], 0
    for end in _END.finditer(text):
        if _is_end(text, end):
            spans.append(CharSpan(start, end.end()))
            start = end.end()
    spans.append(CharSpan(start, len(text)))
    return [found for span in spans if (found := _stripped(text, span))]


def fitting_pieces(
    texts: Sequence[str], count_tokens: Callable[[list[str]], list[int]], most_tokens: int
) -> list[list[CharSpan] | None]:
    """Returns the sentences of each text. A sentence of more than `most_tokens` tokens is cut at a boundary near its
    middle, and again until the pieces fit. None for a text with a longer piece that has no boundary.

    `count_tokens` takes many pieces and returns the number of tokens of each.
    """
    fitting: list[list[CharSpan] | None] = [sentences(text) for text in texts]
    unknown = [(index, span) for index, spans in enumerate(fitting) for span in spans or ()]
    while unknown:
        lengths = count_tokens([span.of(texts[index]) for index, span in unknown])
        too_long = [place for place, length in zip(unknown, lengths, strict=True) if length > most_tokens]
        unknown = []
        for index, span in too_long:
            spans, halves = fitting[index], _halves(texts[index], span)
            if spans is None or halves is None:
                fitting[index] = None
                continue
            at = spans.index(span)
            spans[at : at + 1] = halves
            unknown += [(index, half) for half in halves]
    return fitting


def _is_end(text: str, end: re.Match[str]) -> bool:
    """Returns whether a match of `_END` does end a sentence."""
    mark = text[end.start() - 1 : end.start()]
    if mark not in (".", "!", "?", "…") or not _LINE_BREAKS.isdisjoint(end[0]):
        return True
    if text[end.end() : end.end() + 1].islower():
        return False
    word = re.search(r"\w*\.$", text[max(0, end.start() - 12) : end.start()])
    if not word or mark != ".":
        return True
    before = word[0][:-1].lower()
    is_initial, is_number = len(before) == 1 and before.isalpha(), before.isdecimal() and len(before) < 3
    return not (is_initial or is_number or before in _ABBREVIATIONS)


def _halves(text: str, span: CharSpan) -> tuple[CharSpan, CharSpan] | None:
    """Cuts a piece at the best kind of boundary in its middle half; if there is none, at any boundary."""
    quarter, middle = (span.end - span.start) // 4, (span.start + span.end) / 2
    for within in (CharSpan(span.start + quarter, span.end - quarter), span):
        for boundary in _BOUNDARIES:
            cuts = [
                cut for cut in boundary.finditer(text, span.start, span.end) if within.start < cut.start() < within.end
            ]
            if cuts:
                cut = min(cuts, key=lambda cut: abs(cut.start() - middle))
                left, right = CharSpan(span.start, cut.start()), CharSpan(cut.end(), span.end)
                if left.start < left.end and right.start < right.end:
                    return left, right
    return None


def _stripped(text: str, span: CharSpan) -> CharSpan | None:
    piece = span.of(text)
    start = span.start + len(piece) - len(piece.lstrip())
    end = span.start + len(piece.rstrip())
    return CharSpan(start, end) if start < end else None
