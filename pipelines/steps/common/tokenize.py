"""Splits texts into words, as code-point spans: with spaCy where it supports the language, PyThaiNLP for Thai, jieba
for Chinese, SudachiPy for Japanese, Sacremoses otherwise (mPMR, A.1 names the libraries).

Only the *ends* of a library's tokens are used, inside each run of non-space characters. So every such character is in
exactly one token, no token holds white space, and texts are never rewritten.
"""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import metadata
from importlib.resources import files as package_files
from importlib.util import find_spec
from typing import Any, cast

from schemas.errors import ConfigError
from schemas.languages import Language, language
from schemas.spans import CharSpan

Tokenizer = Callable[[str], list[CharSpan]]
Split = Callable[[str], Sequence[int]]  # a run of non-space characters → where its tokens end, ascending

# Tokenizer → the packages whose versions decide the boundaries, by pip's name, and the module that each installs.
_LIBRARIES: dict[str, dict[str, str]] = {
    "spacy": {"spacy": "spacy"},
    "sudachi": {"sudachipy": "sudachipy", "sudachidict_core": "sudachidict_core"},
    "pythainlp": {"pythainlp": "pythainlp"},
    "moses": {"sacremoses": "sacremoses"},
    "jieba": {"rjieba": "rjieba"},
}
_VARIANT = {"sudachi": "A, readings apart", "pythainlp": "newmm", "jieba": "no-hmm"}

# Zero-width spaces and bidirectional marks are tokens of their own; else adjacent answers would include them.
_INVISIBLE = "\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
_CHUNK = re.compile(rf"[^\s{_INVISIBLE}]+|[{_INVISIBLE}]+")
_NOT_SPACE = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINER = "\u200d"
# Characters that continue the one before them: marks, joiners, skin tones. A word never begins with one.
_EXTENDERS = frozenset(
    chr(code)
    for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
    if unicodedata.category(chr(code)).startswith("M") or code in (0x200C, 0x200D) or 0x1F3FB <= code <= 0x1F3FF
)
_EXTENDER_CLASS = "".join(sorted(_EXTENDERS))
_EXTENDER = re.compile(f"[{_EXTENDER_CLASS}]")

# In languages with spaces, chunks up to _CACHED_CHARS are cached, which makes frequent words cheap and bounds a
# worker's memory (about 25 MB a language); chunks over _MAX_CHARS are junk, and are cut because spaCy's affix rules
# take quadratic time. In other languages a chunk is a clause or a paragraph: none repeats, and the limit keeps Sudachi
# below its 49,149 bytes and newmm's dictionary search short.
_CACHE_SIZE = 1 << 16
_CACHED_CHARS = 64
_MAX_CHARS_SPACED = 256
_SPACY_LIFETIME = 1_000_000  # words outside the cache
_MAX_CHARS_UNSPACED = 4096


@cache
def tokenizer_for(lang: str) -> Tokenizer:
    """Returns the tokenizer of `lang`. There is one per process, which its threads share.

    >>> [tuple(span) for span in tokenizer_for("vi")("Anna ở Hà Nội.")]
    [(0, 4), (5, 6), (7, 9), (10, 13), (13, 14)]
    """
    check_tokenizer(lang)
    row = language(lang)
    if row.tokenizer == "moses":
        return _moses(lang)
    if row.tokenizer == "spacy":
        return _by_chunk(_spacy_split(row), row)
    if row.tokenizer == "sudachi":
        return _by_chunk(_sudachi_split(), row)
    if row.tokenizer == "pythainlp":
        return _by_chunk(_thai_split(), row)
    return _by_chunk(_chinese_split(), row)


def tokenizer_version(lang: str) -> dict[str, str]:
    """Returns what decides the boundaries in `lang`, for the manifest. For Japanese this is

    {"tokenizer": "sudachi:A, readings apart", "sudachipy": "0.7.0", "sudachidict_core": "20261015", …}
    """
    check_tokenizer(lang)
    kind = language(lang).tokenizer
    versions = {package: metadata.version(package) for package in _LIBRARIES[kind]}
    # Python's own character tables define white space, letters and marks.
    return {"tokenizer": f"{kind}:{_VARIANT.get(kind, lang)}", **versions, "unicode": unicodedata.unidata_version}


def check_tokenizer(lang: str) -> None:
    """Raises `ConfigError` if `lang` is unknown or lacks an installed library. Does not import the library."""
    try:
        kind = language(lang).tokenizer
    except ValueError as error:
        raise ConfigError(str(error)) from None
    missing = [package for package, module in _LIBRARIES[kind].items() if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"words of language {lang!r} are found with {kind}, but this Python has no {' and no '.join(missing)}. "
            f"Install with: pip install {' '.join(missing)}"
        )


def token_texts(text: str, spans: Sequence[CharSpan]) -> list[str]:
    """Returns the text of each span."""
    return [text[start:end] for start, end in spans]


def _by_chunk(split: Split, row: Language) -> Tokenizer:
    """Applies `split` to each run of non-space characters."""
    max_chars = _MAX_CHARS_SPACED if row.spaced else _MAX_CHARS_UNSPACED
    cached_chars = _CACHED_CHARS if row.spaced else 0

    def ends_of(chunk: str) -> tuple[int, ...]:
        # A lone surrogate is no text that a library written in C or Rust accepts.
        ends = split(_SURROGATE.sub("\ufffd", chunk))
        if not _EXTENDERS.isdisjoint(chunk):
            ends = [end for end in ends if end == len(chunk) or not _continues(chunk, end)]
        return tuple(ends)

    cached_ends_of = lru_cache(_CACHE_SIZE)(ends_of)

    def tokenize(text: str) -> list[CharSpan]:
        spans = []
        for match in _CHUNK.finditer(text):
            chunk, offset = match[0], match.start()
            start = offset
            if len(chunk) <= cached_chars:
                ends = cached_ends_of(chunk)
            elif len(chunk) <= max_chars:
                ends = ends_of(chunk)
            else:
                ends = _ends_of_pieces(chunk, max_chars, ends_of)
            for end in ends:
                end += offset
                spans.append(CharSpan(start, end))
                start = end
        return spans

    return tokenize


def _continues(chunk: str, index: int) -> bool:
    """Returns whether no boundary may be at `index`, between a character and one that extends it."""
    return chunk[index] in _EXTENDERS or chunk[index - 1] == _JOINER


def _ends_of_pieces(chunk: str, max_chars: int, ends_of: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
    """Splits an overlong chunk: pieces end after punctuation in their second half if there is any, else anywhere."""
    ends: list[int] = []
    start = 0
    while start < len(chunk):
        stop = min(start + max_chars, len(chunk))
        if stop < len(chunk):
            backwards = range(stop, start + max_chars // 2, -1)
            stop = next((cut for cut in backwards if not chunk[cut - 1].isalnum() and not _continues(chunk, cut)), stop)
            stop = next((cut for cut in backwards if cut <= stop and not _continues(chunk, cut)), stop)
        ends += [start + end for end in ends_of(chunk[start:stop])]
        start = stop
    return tuple(ends)


# --- spaCy ----------------------------------------------------------------------------------------

# spaCy's rules for scripts without case are thin: Arabic keeps the full stop in the word when the last two characters
# are not both letters, and no rule splits at a quotation mark that lacks its space.
_CASELESS_SCRIPTS = {
    "Arab": "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Beng": "\u0980-\u09ff",
    "Deva": "\u0900-\u097f",
    "Taml": "\u0b80-\u0bff",
    "Telu": "\u0c00-\u0c7f",
}
_SEPARATORS = '"“”„«»,;!?()।॥،؛؟۔⸮'


def _spacy_split(row: Language) -> Split:
    nlp = _spacy_pipeline(row)
    marks_are_letters = row.script in _CASELESS_SCRIPTS
    lock = threading.Lock()  # memory zones must not overlap, and Beam runs several threads in a process
    calls = 0

    def split(chunk: str) -> list[int]:
        nonlocal nlp, calls
        if not marks_are_letters:
            # Decomposed accents are no letters to spaCy: "café." would keep its full stop.
            chunk = _EXTENDER.sub("a", chunk)
        with lock:
            # Without zones spaCy keeps every distinct word of the corpus; with them its hash tables still grow slowly.
            calls += 1
            if calls % _SPACY_LIFETIME == 0:
                nlp = _spacy_pipeline(row)
            with nlp.memory_zone():
                return [token.idx + len(token) for token in nlp.tokenizer(chunk)]

    return split


def _spacy_pipeline(row: Language) -> Any:
    """Returns spaCy's blank pipeline of the language, with a tokenizer completed by the rules above."""
    import spacy
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

    nlp = spacy.blank(row.code)
    tokenizer: Any = nlp.tokenizer
    if row.script in _CASELESS_SCRIPTS:
        letters = _CASELESS_SCRIPTS[row.script]
        beside = f"{letters}{_SEPARATORS}"
        prefixes = [f"[{_SEPARATORS}]"]
        suffixes = [f"[{_SEPARATORS}]", rf"(?<=[{beside}’'a-z0-9])[.\-–—]"]
        infixes = [rf"(?<=[{beside}])(?<!\d)[{_SEPARATORS}](?=[{beside}])(?!\d)"]
        tokenizer.prefix_search = compile_prefix_regex([*(nlp.Defaults.prefixes or ()), *prefixes]).search
        tokenizer.suffix_search = compile_suffix_regex([*(nlp.Defaults.suffixes or ()), *suffixes]).search
        tokenizer.infix_finditer = compile_infix_regex([*(nlp.Defaults.infixes or ()), *infixes]).finditer
    elif row.code == "tr":
        # Turkish writes the case of a name or year behind an apostrophe: Hanoi'de, 1975'te. The name is the answer.
        infixes = [r"(?<=\w)(?=['’][a-zçğıöşü])"]
        tokenizer.infix_finditer = compile_infix_regex([*(nlp.Defaults.infixes or ()), *infixes]).finditer
        whole = tokenizer.token_match  # numbers, with their case
        tokenizer.token_match = lambda word: None if re.search("['’]", word) else whole(word)
    return nlp


# --- Moses ----------------------------------------------------------------------------------------


def _moses(lang: str) -> Tokenizer:
    from sacremoses import MosesTokenizer

    class Moses(MosesTokenizer):
        """Gives the same answers as its parent, which builds sets of up to 100,000 characters at every call."""

        def islower(self, text: str) -> bool:
            return lower.issuperset(text)

        def isanyalpha(self, text: str) -> bool:
            return not letters.isdisjoint(text)

    moses = Moses(lang)
    lower, letters = frozenset(moses.IsLower), frozenset(moses.IsAlpha)

    def tokenize(text: str) -> list[CharSpan]:
        pieces = cast("list[str]", moses.tokenize(_shadow(text), escape=False))
        spans: list[CharSpan] = []
        lengths = iter(map(len, pieces))
        for match in _NOT_SPACE.finditer(text):
            start = end = match.start()
            stop = match.end()
            while end < stop:
                end += next(lengths)
                if end == stop or not _continues(text, end):
                    spans.append(CharSpan(start, end))
                    start = end
        return spans

    return tokenize


# Sacremoses would drop some characters, cut letters from their accents, or take text for its own markers. It gets other
# characters instead: only its boundaries are used, and equal lengths keep them exact.
_REMOVED = re.compile("[\0-\x08\x0e-\x1b\ud800-\udfff]")
_MARKER = re.compile("(?<=DOT)MULTI")


def _shadow(text: str) -> str:
    if text.isascii():
        text = _REMOVED.sub("\ufffd", text) if not text.isprintable() else text
    else:
        text = _REMOVED.sub("\ufffd", text)
        if not _EXTENDERS.isdisjoint(text):
            text = _EXTENDER.sub("a", text)
    return _MARKER.sub("multi", text) if "DOTMULTI" in text else text


# --- Languages without spaces ---------------------------------------------------------------------


def _sudachi_split() -> Split:
    from sudachipy import Dictionary, SplitMode

    # Its own configuration makes one word of 寿司（すし）, and the answer 寿司 would be none.
    config = json.loads(package_files("sudachipy").joinpath("resources", "sudachi.json").read_text(encoding="utf-8"))
    config["inputTextPlugin"] = [
        plugin for plugin in config["inputTextPlugin"] if not plugin["class"].endswith(".IgnoreYomiganaPlugin")
    ]
    tokenizer = Dictionary(config=json.dumps(config)).tokenizer(mode=SplitMode.A)
    lock = threading.Lock()  # a Sudachi tokenizer serves one thread at a time

    def split(chunk: str) -> list[int]:
        with lock:
            ends = {morpheme.end() for morpheme in tokenizer.tokenize(chunk)}
        # Sudachi normalises what it reads (… becomes ...): several morphemes may end at one character.
        return sorted(ends - {0} | {len(chunk)})

    return split


_THAI = re.compile("[\u0e00-\u0e7f]")
_NOT_THAI = re.compile("[^\u0e00-\u0e7f]+")


def _thai_split() -> Split:
    from pythainlp.tokenize.newmm import segment

    def split(chunk: str) -> list[int]:
        ends, end = set(), 0
        for word in segment(chunk):
            end += len(word)
            # newmm glues what is not Thai, as in "(2019)"; only the edges of Thai are its own.
            if end == len(chunk) or _THAI.match(chunk, end - 1) or _THAI.match(chunk, end):
                ends.add(end)
        for run in _NOT_THAI.finditer(chunk):
            # The run's own end is newmm's to decide: the full stops of พ.ศ. are part of one word.
            ends.update(run.start() + end for end in _character_split(run[0])[:-1])
        return sorted(ends)

    return split


def _chinese_split() -> Split:
    import rjieba

    def split(chunk: str) -> list[int]:
        ends = []
        for match in _CHINESE.finditer(chunk):
            end = match.start()
            # Without its model of new words: what the dictionary lacks is cut into characters, not guessed at.
            for word in rjieba.cut(match[0], False) if match.lastgroup == "han" else [match[0]]:
                end += len(word)
                ends.append(end)
        return ends

    return split


# Han, kana and bopomofo characters are words of their own; digits with their separators and runs of other letters are
# words; so is any other single character.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3040-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(rf"\d+(?:[.,]\d+)+|[^\W{_CJK}](?:[^\W{_CJK}]|[{_EXTENDER_CLASS}])*|.", re.DOTALL)
_CHINESE = re.compile(rf"(?P<han>[{_CJK}]+)|{_CHARACTER.pattern}", re.DOTALL)


def _character_split(chunk: str) -> list[int]:
    return [match.end() for match in _CHARACTER.finditer(chunk)]
