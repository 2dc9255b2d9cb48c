"""Filters of sentence pairs that run before any model. The paper has a limit of length alone (CLISM, 4.2)."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipelines.steps.common.sentence_pairs import SentencePair

Tokens = TypeVar("Tokens", bound=Sequence[object])


@dataclass(frozen=True)
class FilterConfig:
    """Which sentence pairs are refused. Each field names its reject reason in brackets."""

    max_words: int = 128
    """[too_long] The largest number of words that a side may have. The paper has 128 as the length of a sentence in
    training, and does not say whether longer ones are cut or left out (CLISM, 4.2); the trainer cuts at 128 tokens."""
    max_length_ratio: float = 5.0
    """[length_ratio] The largest ratio of the longer to the shorter side, in words; 0 switches it off. The paper does
    not mention such a filter."""
    drop_identical: bool = True
    """[identical_sides] Refuse pairs whose two sides are the same text. The paper does not mention such a filter."""
    drop_duplicates: bool = True
    """[duplicate] Refuse pairs whose two texts occurred earlier in the input, in any corpus of the language pair. The
    paper does not mention such a filter."""


def filter_pair(
    sentences: SentencePair,
    is_duplicate: bool,
    tokenizers: tuple[Callable[[str], Tokens], Callable[[str], Tokens]],
    config: FilterConfig,
) -> tuple[Tokens, Tokens] | str:
    """Returns the words of both sides, or the reason for which the pair is refused. The tokenizers are called last.

    The CLISM job and `align train` both filter with this function, so they train on the same pairs.
    """
    if reason := "duplicate" if is_duplicate else text_reject(sentences, config):
        return reason
    source, target = tokenizers[0](sentences.source_text), tokenizers[1](sentences.target_text)
    return length_reject(source, target, config) or (source, target)


def text_reject(sentences: SentencePair, config: FilterConfig) -> str | None:
    """Returns the reason for which the texts alone refuse this pair, or None."""
    source, target = sentences.source_text.strip(), sentences.target_text.strip()
    if not source or not target:
        return "empty_side"
    if config.drop_identical and source == target:
        return "identical_sides"
    return None


def length_reject(source_tokens: Sequence[object], target_tokens: Sequence[object], config: FilterConfig) -> str | None:
    """Returns the reason for which the numbers of words refuse this pair, or None."""
    shorter, longer = sorted((len(source_tokens), len(target_tokens)))
    if longer > config.max_words:
        return "too_long"
    if config.max_length_ratio and longer > config.max_length_ratio * shorter:
        return "length_ratio"
    return None


def text_digest(sentences: SentencePair) -> bytes:
    """Returns a hash of sixteen bytes over the two texts, without white space at their ends."""
    text = f"{sentences.source_text.strip()}\0{sentences.target_text.strip()}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class SeenTexts:
    """A set of text digests: an open-addressing hash table of eight bytes a slot, which takes 12 to 18 bytes a text.

    Only the first eight bytes of a digest are compared. Among a hundred million texts, the probability that any two
    different ones are taken for the same is 1 in 3,700.
    """

    def __init__(self) -> None:
        self._slots, self._used = array("Q", [0]) * 1024, 0  # 0: free

    def add(self, digest: bytes) -> bool:
        """Adds a digest and returns whether it was new."""
        if self._used * 3 >= len(self._slots) * 2:
            seen, self._slots = self._slots, array("Q", [0]) * (len(self._slots) * 3 // 2)
            for key in filter(None, seen):
                self._slots[self._slot(key)] = key
        key = int.from_bytes(digest[:8], "big") or 1
        slot = self._slot(key)
        if self._slots[slot]:
            return False
        self._slots[slot] = key
        self._used += 1
        return True

    def _slot(self, key: int) -> int:
        """Returns the slot that holds the key, or the free one where it belongs."""
        slots = self._slots
        slot = (key * len(slots)) >> 64
        while slots[slot] and slots[slot] != key:
            slot = slot + 1 if slot + 1 < len(slots) else 0
        return slot
