"""Sentence pairs that are refused before any model sees them. The paper has a limit of length alone (CLISM, 4.2)."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.steps.common.sentence_pairs import SentencePair


@dataclass(frozen=True)
class FilterConfig:
    """Which sentence pairs are refused. Each field's reason for rejects is in brackets."""

    max_words: int = 128
    """[too_long] The most words a side. The paper has 128 as the length of a sentence in training, and does not say
    whether longer ones are cut or left out (CLISM, 4.2); the trainer cuts at 128 tokens."""
    max_length_ratio: float = 5.0
    """[length_ratio] Longer side over shorter side, in words. The paper says nothing of it: 0 switches it off."""
    drop_identical: bool = True
    """[identical_sides] Both sides are the same text. The paper says nothing of it."""
    drop_duplicates: bool = True
    """[duplicate] The same pair of texts stood earlier in the input, in whatever corpus of the language pair. The paper
    says nothing of it."""


def text_reject(pair: SentencePair, config: FilterConfig) -> str | None:
    """Why the texts alone refuse this pair, or None."""
    source, target = pair.source_text.strip(), pair.target_text.strip()
    if not source or not target:
        return "empty_side"
    if config.drop_identical and source == target:
        return "identical_sides"
    return None


def length_reject(source_tokens: Sequence[object], target_tokens: Sequence[object], config: FilterConfig) -> str | None:
    """Why the numbers of words refuse this pair, or None."""
    shorter, longer = sorted((len(source_tokens), len(target_tokens)))
    if longer > config.max_words:
        return "too_long"
    if config.max_length_ratio and longer > config.max_length_ratio * shorter:
        return "length_ratio"
    return None


def text_digest(pair: SentencePair) -> bytes:
    """Sixteen bytes that two pairs share only if their texts are equal, white space at the ends aside."""
    text = f"{pair.source_text.strip()}\0{pair.target_text.strip()}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class SeenTexts:
    """The texts that were seen, as eight bytes each in a table that is at most two thirds full: 12 to 18 bytes a text.

    Texts that differ are taken for the same where the first eight bytes of their digests are: of a hundred million, any
    two are with a probability of 1 in 3,700.
    """

    def __init__(self) -> None:
        self._slots, self._used = array("Q", [0]) * 1024, 0  # 0: free

    def add(self, digest: bytes) -> bool:
        """Whether it was not there yet."""
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
        """Where it is, or would be."""
        slots = self._slots
        slot = (key * len(slots)) >> 64
        while slots[slot] and slots[slot] != key:
            slot = slot + 1 if slot + 1 < len(slots) else 0
        return slot
