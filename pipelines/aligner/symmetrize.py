"""Combines the links of both directions; in each, a generated word has at most one partner.

A *directed* set of links holds, for each word of the side that was generated, the link to the word that most probably
generated it, if any: `forward` for target words given the source sentence, `backward` the reverse. Links are (source,
target), both 0-based. `intersect` gives the fewest and surest links, `union` all of them; `grow_diag_final_and` is in
between, and most phrase-based translation systems use it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence

from pipelines.aligner.links import Link, LinkSet
from pipelines.aligner.model import AlignmentModel, Words

# Moses' order: first the four that share a side, then the diagonal ones; as offsets of (source, target).
_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def intersect(forward: Collection[tuple[int, int]], backward: Collection[tuple[int, int]]) -> LinkSet:
    """Returns the links that both directions have. No word has two of them."""
    return set(forward) & set(backward)


def union(forward: Collection[tuple[int, int]], backward: Collection[tuple[int, int]]) -> LinkSet:
    """Returns the links that either direction has."""
    return set(forward) | set(backward)


def grow_diag_final_and(forward: Collection[tuple[int, int]], backward: Collection[tuple[int, int]]) -> LinkSet:
    """Applies the heuristic of Koehn et al. (2003; 2005, section 2.2), as Moses defines it.

    Starts from the intersection. A link of the union is accepted if it is next to an accepted one, also diagonally, and
    one of its two words has no link yet. Sweeps by target word, then source word, repeat until one adds nothing; a link
    counts as soon as it is accepted. Finally links of `forward`, then of `backward`, are accepted in the same order if
    neither of their words has a link.

    >>> sorted(grow_diag_final_and({(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (3, 4)}))
    [(0, 0), (1, 1), (1, 2), (3, 4)]
    """
    forward, backward = set(forward), set(backward)
    links = forward & backward
    left = (forward | backward) - links
    sources, targets = {source for source, _ in links}, {target for _, target in links}

    def accept(link: tuple[int, int]) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grew = True
    while grew:
        grew = False
        left = {link for link in left if link[0] not in sources or link[1] not in targets}
        # What the sweep has yet to visit: links with a neighbour to accept. Those that it accepts behind itself wait
        # for the next sweep.
        beside = {(i + i_offset, j + j_offset) for i, j in left for i_offset, j_offset in _NEIGHBOURS}
        ahead = [(target, source) for source, target in beside & links]
        heapq.heapify(ahead)
        while ahead:
            target, source = heapq.heappop(ahead)
            for source_offset, target_offset in _NEIGHBOURS:
                link = (source + source_offset, target + target_offset)
                if link in left and (link[0] not in sources or link[1] not in targets):
                    accept(link)
                    left.discard(link)
                    grew = True
                    if link[::-1] > (target, source):
                        heapq.heappush(ahead, link[::-1])
    for directed in (forward, backward):
        for link in sorted(directed & left, key=lambda link: link[::-1]):
            if link[0] not in sources and link[1] not in targets:
                accept(link)
    return links


SYMMETRIZATIONS: dict[str, Callable[[Collection[tuple[int, int]], Collection[tuple[int, int]]], LinkSet]] = {
    "intersect": intersect,
    "union": union,
    "grow-diag-final-and": grow_diag_final_and,
}


def align_symmetrized(
    model: AlignmentModel, pairs: Sequence[tuple[Words, Words]], symmetrization: str, *, threads: int = 1
) -> list[list[Link]]:
    """Links each pair by a rule of `SYMMETRIZATIONS` instead of the model's threshold. Scores are the same."""
    rule = SYMMETRIZATIONS[symmetrization]
    aligned = []
    for forward, backward in model.directed_links(pairs, threads=threads):
        score = {(link.source, link.target): link.score for link in (*forward, *backward)}
        both = [{(link.source, link.target) for link in links} for links in (forward, backward)]
        aligned.append([Link(*link, score[link]) for link in sorted(rule(*both))])
    return aligned
