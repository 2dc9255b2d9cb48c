"""Reads translation memories (TMX 1.1 to 1.4b) as a stream: memory does not grow with the file.

The text of a `<seg>` leaves out the native code inside `<bpt>`, `<ept>`, `<ph>`, `<it>` and `<ut>`, with any `<sub>`,
and keeps the text inside `<hi>`. Line breaks and spaces stay.

No other file is opened, and no entity is expanded except XML's own five. A document type is refused if it has an
internal subset or names another DTD than TMX's, which is skipped and not loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from xml.parsers import expat

from pipelines.steps.common.files import MAX_LINE_BYTES, BadText, FileDigest, read_chunks, shell_text
from schemas.errors import InputError
from schemas.languages import LanguagePair
from schemas.rejects import MAX_EXCERPT_CHARS

MAX_DEPTH = 100  # nested elements; a real TMX has fewer than ten
MAX_MARKUP_BYTES = 1 << 22  # one tag or comment: expat holds it whole

Unit = tuple["str | BadText | None", "str | BadText | None"]  # source and target; None where there is no text at all

_NATIVE_CODE = {"bpt", "ept", "ph", "it", "ut", "sub"}
_TMX_DTD = re.compile(r"(?:.*[/\\])?tmx\d*\.dtd", re.IGNORECASE)
_MAX_TAG_CHARS = 35  # the buffer size that BCP 47 recommends for a language tag
_MAX_LANGUAGES_LISTED = 50


def read_units(path: str, pair: LanguagePair, digests: list[FileDigest] | None = None) -> Iterator[Unit]:
    """Yields the source and the target text of every `<tu>`, in the file's order; None for a missing language.

    `xml:lang` (or the older `lang`) is compared case-insensitively. If no tag is equal, one that is more or less
    specific matches (`en-US` for `en`, `es` for `es-419`), unless both languages of the pair are variants of one. Of
    equally good `<tuv>` the first is taken. Raises `InputError` for a file that is not well-formed, not TMX or not
    safe, that has no `<tu>`, or no `<tu>` with both languages.
    """
    parser = _UnitParser(path, pair)
    for chunk in read_chunks(path, digests):
        yield from parser.feed(chunk)
    yield from parser.feed(b"", final=True)
    if not parser.units_read:
        raise InputError(f"{path}: the file has no <tu>, so no translation. Look at it: {shell_text(path)} | head")
    if not parser.units_complete:
        found = ", ".join(sorted(parser.languages)) or "none"
        raise InputError(
            f"{path}: none of its {parser.units_read} <tu> has both {pair.source} and {pair.target}. "
            f"Languages found: {found}. Name the pair with the file's own codes, or leave the file out."
        )


def check_start(path: str, pair: LanguagePair, chunk: bytes) -> None:
    """Raises the `InputError` that `read_units` would raise within the file's first bytes."""
    _UnitParser(path, pair).feed(chunk)


@lru_cache(maxsize=1024)
def _closeness(wanted: str, found: str, exact_only: bool) -> int:
    """Returns 2 for the same language tag, 1 for one that is more or less specific, 0 for another language."""
    wanted, found = (tag.casefold().replace("_", "-") for tag in (wanted, found))
    if wanted == found:
        return 2
    return int(not exact_only and (found.startswith(wanted + "-") or wanted.startswith(found + "-")))


class _UnitParser:
    """Holds the state of one pass of expat over one file."""

    def __init__(self, path: str, pair: LanguagePair) -> None:
        self.path, self.pair = path, pair
        self.exact_only = pair.source.split("-")[0].casefold() == pair.target.split("-")[0].casefold()
        self.languages: set[str] = set()
        self.units_read = self.units_complete = 0

        self._fed_bytes = 0
        self._units: list[Unit] = []  # complete, not yet handed out
        self._depth = 0
        self._seg_depth = self._native_depth = 0  # depth of the element that we are inside of; 0 for none
        self._texts: list[str | BadText | None] = [None, None]  # source, target of this <tu>
        self._best = [0, 0]  # how close the language of each is
        self._tuv = (0, 0)  # how close this <tuv> is to each
        self._pieces: list[str] = []
        self._seg_chars = 0

        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.StartDoctypeDeclHandler = self._doctype
        self._expat.SkippedEntityHandler = self._skipped_entity

    def feed(self, data: bytes, final: bool = False) -> list[Unit]:
        """Parses more bytes, and returns the units that are complete now."""
        self._fed_bytes += len(data)
        try:
            self._expat.Parse(data, final)
        except InputError:
            raise
        except expat.ExpatError as error:
            raise self._refusal(f"not well-formed XML ({expat.ErrorString(error.code)})") from error
        except (LookupError, ValueError) as error:  # an encoding that Python does not know or expat cannot take
            raise self._refusal(f"{error}. Convert the file, and its XML declaration, to UTF-8") from error
        if self._fed_bytes - self._expat.CurrentByteIndex > MAX_MARKUP_BYTES:
            raise self._refusal(f"a tag or comment of more than {MAX_MARKUP_BYTES} bytes")
        units, self._units = self._units, []
        return units

    def _refusal(self, what: str) -> InputError:
        return InputError(
            f"{self.path}, line {self._expat.CurrentLineNumber}: {what}. "
            f"Check it: {shell_text(self.path)} | xmllint --noout --nonet -"
        )

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        if has_internal_subset or not _TMX_DTD.fullmatch(system_id or ""):
            raise self._refusal(
                "a document type that may declare entities, which is never needed and not safe to read. "
                'Expected none, or <!DOCTYPE tmx SYSTEM "tmx14.dtd">; remove it'
            )

    def _skipped_entity(self, name: str, is_parameter_entity: int) -> None:
        raise self._refusal(f"the entity &{name}; is not defined")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._seg_depth:
            if not self._native_depth and name in _NATIVE_CODE:
                self._native_depth = self._depth
                self._expat.CharacterDataHandler = None
        elif name == "seg":
            source, target = self._tuv
            if source > self._best[0] or target > self._best[1]:
                self._seg_depth = self._depth
                self._pieces, self._seg_chars = [], 0
                self._expat.CharacterDataHandler = self._text
        elif name == "tuv":
            language = (attributes.get("xml:lang") or attributes.get("lang", ""))[:_MAX_TAG_CHARS]
            if len(self.languages) < _MAX_LANGUAGES_LISTED:
                self.languages.add(language)
            self._tuv = (
                _closeness(self.pair.source, language, self.exact_only),
                _closeness(self.pair.target, language, self.exact_only),
            )
        elif name == "tu":
            self._texts, self._best = [None, None], [0, 0]
        elif self._depth == 1 and name != "tmx":
            raise self._refusal(f"expected the root element <tmx>, found <{name}>")
        if self._depth > MAX_DEPTH:
            raise self._refusal(f"more than {MAX_DEPTH} elements inside each other")

    def _end(self, name: str) -> None:
        if self._native_depth:
            if self._native_depth == self._depth:
                self._native_depth = 0
                self._expat.CharacterDataHandler = self._text
        elif self._seg_depth:
            if self._seg_depth == self._depth:
                self._seg_depth = 0
                self._expat.CharacterDataHandler = None
                self._take_seg("".join(self._pieces))
        elif name == "tu":
            self.units_read += 1
            source, target = self._texts
            self.units_complete += source is not None and target is not None
            self._units.append((source, target))
        self._depth -= 1

    def _text(self, data: str) -> None:
        self._seg_chars += len(data)
        if self._seg_chars <= MAX_LINE_BYTES:
            self._pieces.append(data)

    def _take_seg(self, text: str) -> None:
        too_long = self._seg_chars > MAX_LINE_BYTES or len(text.encode()) > MAX_LINE_BYTES
        taken = BadText("line_too_long", text[:MAX_EXCERPT_CHARS]) if too_long else text
        for side, closeness in enumerate(self._tuv):
            if closeness > self._best[side]:
                self._texts[side], self._best[side] = taken, closeness
