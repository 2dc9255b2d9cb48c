"""A table that maps every title of a wiki to its article, with about 15 bytes per title.

A title is stored as a 64-bit hash. Articles are numbered 0…A-1 in the order of their titles' hashes, so that an
article's number depends on the wiki alone, and not on the order in which its dump was read. Redirects are resolved when
the table is built. The file is mapped into memory, so that all workers of a machine share one copy:

    polyspan-titles/1
    {"arrays": {"keys": ["<u8", 1200], …}, "checksum": "9f…", "counts": {"articles": 1000, …}}
    the arrays' bytes, in the order of the header, little-endian, from the next multiple of 64 bytes
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.steps.common.files import open_raw
from pipelines.steps.common.paths import is_remote
from schemas.errors import InputError

KINDS = ("article", "disambiguation", "list", "red", "loop")
"""The kinds of targets: "red" is a missing page, "loop" is a circle of redirects, the others are pages."""

MAX_HOPS = 32  # of redirects in a chain; MediaWiki follows one, and bots shorten longer chains

_NAME, _VERSION = "polyspan-titles", 1
_TYPES = {"keys": "<u8", "locators": "<i8", "numbers": "<i4", "redirects": "|u1", "kinds": "|u1"}
_RED, _LOOP = -1, -2  # in `numbers`
_REDIRECT = 3  # among the kinds of records
_STATES = {"article": 0, "disambiguation": 1, "list": 2, "redirect": _REDIRECT}


class TitleRecord(NamedTuple):
    """A page of the main namespace; its titles are normalised (`pipelines.steps.wikipedia.titles`)."""

    title: str
    redirect: str | None  # target of a redirect; None: no redirect, or one that leads out of the main namespace
    kind: str  # "article", "disambiguation", "list" or "redirect"
    locator: int  # the caller's address of the page; of two pages with one title, the lower is kept


class TitleCounts(NamedTuple):
    """Counts of the records that a table was built from."""

    articles: int  # including disambiguation pages and lists
    redirects: int
    red_redirects: int  # redirects whose target is no page of the main namespace
    loops: int  # redirects that lead to one another
    duplicate_titles: int  # records dropped because another record has the same title
    equal_hashes: int  # records dropped because another title has the same hash


class Resolution(NamedTuple):
    """The target of a title: `Resolution(17, "article", True)`."""

    article: int  # number of the article; -1: no page
    kind: str  # one of KINDS
    via_redirect: bool


class Resolutions(NamedTuple):
    """The targets of N titles."""

    articles: NDArray[np.int32]  # (N,); -1: no page
    kinds: NDArray[np.uint8]  # (N,) indices into KINDS
    via_redirect: NDArray[np.bool_]  # (N,)


class TitleTable:
    """A title table maps T titles to A articles. It is built by `build_titles` or loaded from a file.

    titles (T):  keys    numbers    redirects          articles (A):  kinds  locators
    Hound        0x11…   0          1                  0 (Dog)        0      7
    Dog          0x2a…   0          0                  1 (Mercury)    1      3
    Mercury      0x90…   1          0
    Round        0xc5…   -2 (loop)  1
    """

    def __init__(self, arrays: dict[str, NDArray[Any]], counts: TitleCounts) -> None:
        self.keys = arrays["keys"]  # (T,) hashes of titles, ascending
        self.numbers = arrays["numbers"]  # (T,) number of the article that the title leads to, or _RED, _LOOP
        self.redirects = arrays["redirects"]  # (T,) 1: the title belongs to a redirect
        self.locators = arrays["locators"]  # (A,) the articles' locators
        self.kinds = arrays["kinds"]  # (A,) indices into KINDS
        self.counts = counts

    def resolve(self, title: str) -> Resolution:
        """Looks up one normalised title. `resolve_all` is ten times as fast for many."""
        articles, kinds, via_redirect = self.resolve_all([title])
        return Resolution(int(articles[0]), KINDS[kinds[0]], bool(via_redirect[0]))

    def resolve_all(self, titles: Sequence[str]) -> Resolutions:
        """Looks up normalised titles."""
        keys = np.frombuffer(b"".join(map(_digest, titles)), "<u8")[::2]
        numbers, via_redirect = np.full(len(keys), _RED, np.int32), np.zeros(len(keys), bool)
        if len(self.keys):
            rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            known = self.keys[rows] == keys
            numbers[known] = self.numbers[rows[known]]
            via_redirect[known] = self.redirects[rows[known]]
        kinds = np.full(len(keys), KINDS.index("red"), np.uint8)
        kinds[numbers == _LOOP] = KINDS.index("loop")
        kinds[numbers >= 0] = self.kinds[numbers[numbers >= 0]]
        return Resolutions(np.maximum(numbers, -1), kinds, via_redirect)

    def save(self, file: BinaryIO) -> None:
        """Writes the table in the format above."""
        arrays = {name: np.ascontiguousarray(getattr(self, name), type_) for name, type_ in _TYPES.items()}
        described = {name: [array.dtype.str, len(array)] for name, array in arrays.items()}
        counts = self.counts._asdict()
        header = {"arrays": described, "checksum": _checksum(counts, arrays), "counts": counts}
        start = f"{_NAME}/{_VERSION}\n{json.dumps(header)}"
        file.write((start + " " * (-(len(start) + 1) % 64) + "\n").encode())
        for array_ in arrays.values():
            file.write(array_.tobytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> TitleTable:
        """Maps a file into memory and verifies its checksum, which reads all of it.

        Raises `InputError` for another kind of file, another version, a truncated or altered file.
        """
        where = os.fspath(path)
        data = _map(where)
        name, _, version = data[:64].split(b"\n")[0].decode("utf-8", "replace").partition("/")
        if name != _NAME:
            raise InputError(f"{where}: expected a table of titles, found a file that starts with {data[:20]!r}.")
        if version != str(_VERSION):
            raise InputError(
                f"{where}: expected a table of titles of version {_VERSION}, found version {version}. Build it again."
            )
        try:
            line = data.find(b"\n") + 1
            start = data.find(b"\n", line) + 1
            header = json.loads(data[line:start])
            arrays = {}
            for array_name, (type_, length) in header["arrays"].items():
                arrays[array_name] = np.frombuffer(data, type_, length, start)
                start += arrays[array_name].nbytes
            counts = TitleCounts(**header["counts"])
            intact = (
                start == len(data)
                and {array_name: type_ for array_name, (type_, _) in header["arrays"].items()} == _TYPES
                and _checksum(header["counts"], arrays) == header["checksum"]
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            intact = False
        if not intact:
            raise InputError(f"{where}: the table of titles is truncated or altered. Build it again.")
        return TitleTable(arrays, counts)


def build_titles(records: Iterable[TitleRecord]) -> TitleTable:
    """Builds the table of a whole wiki, which is the same for every order of its pages.

    Needs about 150 bytes of memory per record.

    >>> table = build_titles([TitleRecord("Dog", None, "article", 7), TitleRecord("Hound", "Dog", "redirect", 8)])
    >>> table.resolve("Hound"), int(table.locators[0])
    (Resolution(article=0, kind='article', via_redirect=True), 7)
    """
    digests, targets, states, locators = bytearray(), bytearray(), bytearray(), array("q")
    for title, redirect, kind, locator in records:
        digests += _digest(title)
        targets += _digest(redirect or "")[:8]  # the hash of "" is unknown: no page's title is empty
        states.append(_REDIRECT if redirect is not None else _STATES[kind])
        locators.append(locator)
    keys, checks = np.frombuffer(digests, "<u8").reshape(-1, 2).T
    columns = (keys, np.frombuffer(targets, "<u8"), np.frombuffer(states, "|u1"), np.frombuffer(locators, "<i8"))

    order = np.lexsort((columns[-1], checks, keys))
    repeated = _like_previous(keys[order], checks[order])
    order = order[~repeated]
    clashing = _like_previous(keys[order])
    clashing[:-1] |= clashing[1:]
    order = order[~clashing]
    keys, targets_, states_, locators_ = (column[order] for column in columns)

    redirects = states_ == _REDIRECT
    numbers = _follow(keys, redirects, targets_[redirects])
    arrays = {
        "keys": keys,
        "locators": locators_[~redirects],
        "numbers": numbers,
        "redirects": redirects.astype(np.uint8),
        "kinds": states_[~redirects],
    }
    counts = TitleCounts(
        articles=int((~redirects).sum()),
        redirects=int(redirects.sum()),
        red_redirects=int((numbers == _RED).sum()),
        loops=int((numbers == _LOOP).sum()),
        duplicate_titles=int(repeated.sum()),
        equal_hashes=int(clashing.sum()),
    )
    return TitleTable(arrays, counts)


def _follow(keys: NDArray[np.uint64], redirects: NDArray[np.bool_], targets: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Returns (T,) the article that each title leads to. `targets` are the keys of the redirects' targets, in order.

    Pointers are doubled, so that n rounds follow 2**n hops:

        title      0  1  2  3   T=4: nowhere     redirects 0→1→2, 3→unknown; 2 is an article
        leads_to   1  2  2  4   4
        round 1    2  2  2  4   4
    """
    nowhere = len(keys)
    rows = np.searchsorted(keys, targets)
    known = np.append(keys, 0)[rows] == targets
    leads_to = np.arange(nowhere + 1)
    leads_to[:-1][redirects] = np.where(known, rows, nowhere)
    for _ in range(MAX_HOPS.bit_length() - 1):
        leads_to = leads_to[leads_to]
    numbers = np.cumsum(~redirects) - 1
    numbers[redirects] = _LOOP
    return np.append(numbers, _RED)[leads_to[:-1]].astype(np.int32)


def _like_previous(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns (N,) True where a row of sorted columns is the same as the row before it."""
    like = np.zeros(len(columns[0]), bool)
    like[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return like


def _digest(title: str) -> bytes:
    """Returns 16 bytes: a title's key in the table, and 8 more bytes to detect two titles with the same key."""
    return hashlib.blake2b(title.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _checksum(counts: Any, arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(json.dumps(counts).encode(), digest_size=16)
    for name, array_ in arrays.items():
        digest.update(f"{name} {array_.dtype.str} {len(array_)}".encode())
        digest.update(array_.data)
    return digest.hexdigest()


def _map(path: str) -> bytes | mmap.mmap:
    if is_remote(path):
        with open_raw(path) as file:
            return file.read()
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
