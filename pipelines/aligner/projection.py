"""Projects a mention's words to its answer's words, through alignment links (CLISM, 3.1 and footnote 2).

    source   Anna  lives  in  Hanoi           mention: word 3
              |      |    |    |  \\
    target   Anna  sống   ở   Hà  Nội         answer: words 3 and 4, from the first to the last linked word
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.aligner.links import Link
from schemas.spans import CharSpan, TokenSpan


def words_of(span: CharSpan, tokens: Sequence[CharSpan]) -> TokenSpan | None:
    """Returns the words that make up `span`, or None if it begins or ends inside a word."""
    inside = [index for index, token in enumerate(tokens) if token.start < span.end and span.start < token.end]
    if not inside or tokens[inside[0]].start != span.start or tokens[inside[-1]].end != span.end:
        return None
    return TokenSpan(inside[0], inside[-1] + 1)


def project(mention: TokenSpan, links: Sequence[Link]) -> TokenSpan | None:
    """Returns the span from the first to the last target word that is linked to the mention; None without a link."""
    targets = [link.target for link in links if link.source in mention]
    return TokenSpan(min(targets), max(targets) + 1) if targets else None


def is_consistent(mention: TokenSpan, answer: TokenSpan, links: Sequence[Link]) -> bool:
    """Returns whether no word inside the answer is linked to a source word outside the mention."""
    return all(link.source in mention for link in links if link.target in answer)


def alignment_score(mention: TokenSpan, answer: TokenSpan, links: Sequence[Link]) -> float:
    """Returns how well two spans cover each other, 0..1: the mean score of each word's best link to the other span.

    A word without such a link counts 0, so an unlinked half of a name and a gap in its answer both lower the score.
    """
    best_source, best_target = dict.fromkeys(range(*mention), 0.0), dict.fromkeys(range(*answer), 0.0)
    for link in links:
        if link.source in mention and link.target in answer:
            best_source[link.source] = max(best_source[link.source], link.score)
            best_target[link.target] = max(best_target[link.target], link.score)
    return (sum(best_source.values()) + sum(best_target.values())) / (len(best_source) + len(best_target))
