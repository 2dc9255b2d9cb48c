"""Tokenizes text with exact code-point offsets, by any Hugging Face fast tokenizer with a cache of words.

Text never becomes special tokens: `</s>` or `[QUE]` in an article is text. Special tokens come from `pair` and
`single`, which follow the tokenizer's template, and from `encode_masked`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenizers import Encoding, Tokenizer

from schemas.clism import QUE_TOKEN
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CACHED_WORDS = 1 << 18  # about 120 MB when full, in each of a loader's workers
LONGEST_CACHED = 40  # code points: longer "words" are sentences of scripts without blanks, which rarely repeat

_BLANK, _BLANK_BYTE = "▁", "Ġ"
_MARKED_BLANKS = "Metaspace"  # the pre-tokenizer that writes them
# Normalizers that look at one code point or grapheme at a time, or only at the text's edges.
_LOCAL_NORMALIZERS = frozenset("BertNormalizer Lowercase NFC NFD NFKC NFKD Nmt Precompiled StripAccents Strip".split())
# Tests what the description does not show: a table of the model may hold strings with blanks.
_PROBE = "Anna’s  ﬁve dogs,\tfounded 1999! آنا تعيش हनोई में Hà Nội 東京　に住む。 กรุงเทพฯ 서울 \u0301a 👩‍👩‍👧 <s> x"


class Encoded(NamedTuple):
    """A text's tokens without special ones. Token i was made from `text[starts[i]:ends[i]]`, in code points.

    No token covers a blank before its word, so "▁" alone covers nothing. Tokens made from one code point share it ("㎏"
    as "k", "g"). Neither starts nor ends ever decrease.

        text     "Hà Nội"      tokens ▁Hà ▁Nội      starts (0, 3)    ends (2, 6)
    """

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def token_span(encoded: Encoded, start_char: int, end_char: int) -> tuple[int, int] | None:
    """Returns the first and LAST of the fewest tokens that cover `[start_char, end_char)`, or None if no token covers
    any of it.

    They may cover more, if a token straddles an edge, or less, if the tokenizer leaves out code points.
    """
    _, starts, ends = encoded
    first, last = bisect_right(ends, start_char), bisect_left(starts, end_char) - 1
    while first <= last and starts[first] == ends[first]:
        first += 1
    while first <= last and starts[last] == ends[last]:
        last -= 1
    return (first, last) if first <= last else None


class TextEncoder:
    """Encodes text with a tokenizer. Caches the tokens of each word, if they depend on that word alone.

    They do for tokenizers like XLM-R's and BERT's; other tokenizers encode every text. The ids are the tokenizer's own
    (`split_special_tokens=True`), with one exception: text that spells a special token of a SentencePiece vocabulary
    becomes the unknown token.

    Raises `ConfigError` if the tokenizer is not a fast one.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, cached_words: int = CACHED_WORDS) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(
                f"{tokenizer.name_or_path}: expected a fast tokenizer (tokenizer.json), found "
                f"{type(tokenizer).__name__}. Load the folder with transformers.AutoTokenizer"
            )
        self.tokenizer = tokenizer
        self.cached_words = cached_words
        # A copy, because the settings below must not change the caller's tokenizer.
        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        described = backend.to_str()
        description = json.loads(described)

        # Identifies the tokenizer that made the ids.
        self.fingerprint = hashlib.sha256(described.encode()).hexdigest()
        self._backend, self._model, self._normalizer = backend, backend.model, backend.normalizer
        self._unk_id: int | None = tokenizer.unk_token_id
        self._special = {added["id"] for added in description["added_tokens"] if added["special"]} - {self._unk_id}
        self._marks_blanks = any(step["type"] == _MARKED_BLANKS for step in _steps(description["pre_tokenizer"]))
        # A byte-level tokenizer has no mark of its own: a word's first token holds the blank before it ("Ġword").
        self._holds_blanks = any(step["type"] == "ByteLevel" for step in _steps(description["pre_tokenizer"]))
        alone = _BLANK if self._marks_blanks else _BLANK_BYTE if self._holds_blanks else None
        self._blank_id = backend.token_to_id(alone) if alone else None

        one, two = backend.encode("a"), backend.encode("a", "a")
        self._before, self._after = _around(one, 0)
        self._first, rest = _around(two, 0)
        _, self._last = _around(two, 1)
        self._middle = rest[: len(rest) - two.sequence_ids.count(1) - len(self._last)]

        self._words: dict[str, Encoded] | None = {} if _word_local(description) else None
        if self._words is not None and self.encode(_PROBE) != self._encode(_PROBE):
            self._words = None

    def __reduce__(self) -> tuple[Any, ...]:
        return TextEncoder, (self.tokenizer, self.cached_words)  # each worker of a loader fills its own cache

    @property
    def caches_words(self) -> bool:
        """Whether words are cached; otherwise the tokenizer encodes every text."""
        return self._words is not None

    @property
    def que_id(self) -> int:
        """Returns the id of `[QUE]`. Raises `ConfigError` if the tokenizer has none."""
        return self._special_id(QUE_TOKEN, "Add it to tokenizer and model: training.models.tokenizer.add_que_token")

    @property
    def mask_id(self) -> int:
        """Returns the id of the mask. Raises `ConfigError` if the tokenizer has none."""
        return self._special_id(self.tokenizer.mask_token, "Start from a model that was trained with masks")

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that text never becomes, not counting the unknown token's."""
        return frozenset(self._special)

    def encode(self, text: str) -> Encoded:
        """Tokenizes a whole text."""
        if self._words is None:
            return self._encode(text)
        words = text.split(" ")
        pieces = self._look_up(words)
        bases = list(accumulate([0, *[len(word) + 1 for word in words[:-1]]]))
        return Encoded(
            tuple([token for ids, _, _ in pieces for token in ids]),
            tuple([base + start for base, piece in zip(bases, pieces, strict=True) for start in piece[1]]),
            tuple([base + end for base, piece in zip(bases, pieces, strict=True) for end in piece[2]]),
        )

    def ids(self, text: str) -> Sequence[int]:
        """Tokenizes a whole text and returns the ids alone, which is faster."""
        if self._words is None:
            return self._encode(text).ids
        return [token for ids, _, _ in self._look_up(text.split(" ")) for token in ids]

    def encode_masked(self, text: str, spans: Iterable[tuple[int, int]], mask_id: int) -> tuple[list[int], list[int]]:
        """Tokenizes a text in which each of the spans is one token. Returns the ids and the positions of those tokens.

        The spans are in order and do not overlap. Each piece of text between them is encoded as a text of its own, with
        one exception: letters or punctuation that follow a span without a blank continue its word, so they get no "▁"
        ("[QUE]'s" is `[QUE]`, `'`, `s`). A blank before a span has no token: the span's token replaces "▁" and the
        word.
        """
        ids: list[int] = []
        places: list[int] = []
        end = 0
        for start, following in spans:
            ids += self._go_on(text[end:start]) if places else self.ids(text[end:start])
            places.append(len(ids))
            ids.append(mask_id)
            end = following
        ids += self._go_on(text[end:]) if places else self.ids(text)
        return ids, places

    def encode_words(self, text: str, words: Sequence[tuple[int, int]]) -> tuple[list[int], list[tuple[int, int]]]:
        """Tokenizes a sentence word by word. Returns the ids, and for each word its tokens `[start, end)`.

        The words are in order and do not overlap; text between them is left out, like a blank. A word that follows
        another without a blank gets no "▁", as in running text, but no token holds parts of two words. A "▁" token
        before a word is not among the word's tokens. A word that the tokenizer leaves out, or turns into
        "▁" alone, has no tokens and no ids.
        """
        ids: list[int] = []
        places: list[tuple[int, int]] = []
        joined, previous = False, 0  # whether a word's tokens end at `previous`
        for start, end in words:
            joined = joined and start == previous and not text[start - 1].isspace()
            blank = " " if self._holds_blanks and ids else ""
            tokens = self._go_on(text[start:end]) if joined else self.ids(blank + text[start:end])
            own = next((number for number, token in enumerate(tokens) if token != self._blank_id), len(tokens))
            if own < len(tokens):
                places.append((len(ids) + own, len(ids) + len(tokens)))
                ids += tokens
                joined = True
            else:
                places.append((len(ids), len(ids)))
            previous = end
        return ids, places

    def pair(
        self, first: Sequence[int], second: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, int], tuple[int, int]]:
        """Joins two texts with the tokenizer's special tokens. Returns the ids, and the positions `[start, end)` of
        each text."""
        start = len(self._first)
        middle = start + len(first) + len(self._middle)
        ids = (*self._first, *first, *self._middle, *second, *self._last)
        return ids, (start, start + len(first)), (middle, middle + len(second))

    def single(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Puts the tokenizer's special tokens around one text."""
        return (*self._before, *ids, *self._after)

    def _special_id(self, token: str | None, remedy: str) -> int:
        found = None if token is None else self._backend.token_to_id(token)
        if found is None or found not in self._special:
            name = self.tokenizer.name_or_path
            raise ConfigError(f"{name}: expected a tokenizer with a special token {token or 'for masks'}. {remedy}")
        return found

    def _encode(self, text: str) -> Encoded:
        """Tokenizes a text, or a word between blanks, with the tokenizer itself."""
        encoding = self._backend.encode(text, add_special_tokens=False)
        starts, ends = [], []
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            while start < end and text[start].isspace():
                start += 1
            starts.append(start)
            # The tokenizer gives "▁" the offsets of the token after it; it covers no text itself.
            ends.append(start if token == self._blank_id else end)
        return Encoded(tuple(self._spelled(encoding.ids)), tuple(starts), tuple(ends))

    def _spelled(self, ids: list[int]) -> list[int]:
        # A Unigram vocabulary holds "</s>" and "<mask>" as ordinary pieces, and finds them in text.
        if self._special.isdisjoint(ids) or self._unk_id is None:
            return ids
        return [self._unk_id if token in self._special else token for token in ids]

    def _look_up(self, words: list[str]) -> list[Encoded]:
        """Returns each word's tokens, from the cache if it has them."""
        assert self._words is not None
        cached = self._words
        return [cached.get(word) or self._learn(word, cached) for word in words]

    def _learn(self, word: str, cached: dict[str, Encoded]) -> Encoded:
        encoded = self._encode(word)
        if len(word) <= LONGEST_CACHED:
            if len(cached) >= self.cached_words:
                cached.clear()
            cached[word] = encoded
        return encoded

    def _go_on(self, piece: str) -> Sequence[int]:
        """Tokenizes the text after a masked span, without a leading "▁" unless it begins with a blank."""
        head, _, rest = piece.partition(" ")
        plain = self._normalizer.normalize_str(head) if self._normalizer else head
        if not self._marks_blanks or not plain or plain[0].isspace():
            return self.ids(piece)
        first, *others = plain.split()
        words = [first, *(_BLANK + word for word in others)]
        ids = [token.id for word in words for token in self._model.tokenize(word)]
        return [*self._spelled(ids), *self.ids(rest)]


def _steps(description: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Lists the steps of a normalizer or pre-tokenizer from its description in `tokenizer.json`."""
    if description is None:
        return []
    parts = description.get("normalizers") or description.get("pretokenizers")
    return [step for part in parts for step in _steps(part)] if parts else [description]


def _word_local(description: dict[str, Any]) -> bool:
    """Returns whether, by its description, a tokenizer splits text at blanks and tokenizes each word independently."""
    first, *others = _steps(description["pre_tokenizer"]) or [{"type": ""}]
    return (
        first["type"] in ("WhitespaceSplit", "BertPreTokenizer")
        and all(step["type"] == _MARKED_BLANKS and step["prepend_scheme"] != "first" for step in others)
        and all(step["type"] in _LOCAL_NORMALIZERS for step in _steps(description["normalizer"]))
        and all(added["special"] for added in description["added_tokens"])  # others are looked for in text
        and not description["model"].get("dropout")
    )


def _around(encoding: Encoding, which: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ids before and after those of text `which`."""
    places = [place for place, sequence in enumerate(encoding.sequence_ids) if sequence == which]
    return tuple(encoding.ids[: places[0]]), tuple(encoding.ids[places[-1] + 1 :])
