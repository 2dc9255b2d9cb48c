"""Stages of the wikitext scanner that drop markup, from tables to categories, before lines and links are read."""

from __future__ import annotations

import re

from pipelines.steps.wikitext.lines import BOLD, NOT_BOLD
from pipelines.steps.wikitext.literals import EXTENSIONS, JOINT
from pipelines.steps.wikitext.site import LANGUAGE_PREFIXES, Site

# Tables

_TABLE = re.compile(r"\n[ \t:*#;]*(?:(\{\|)|\|\}(?!\}))|<(?:(table)|/table)\b[^<>]*>", re.IGNORECASE)


def drop_tables(text: str) -> str:
    """Drops tables with their content; of a table without end, only its first line."""
    if "{|" not in text and "<table" not in text and "<TABLE" not in text:
        return text
    waiting: list[int] = []
    dropped: list[tuple[int, int]] = []
    for token in _TABLE.finditer(text):
        if token[1] or token[2]:
            waiting.append(token.start())
        elif waiting:
            start = waiting.pop()
            while dropped and dropped[-1][0] > start:
                dropped.pop()
            dropped.append((start, token.end()))
    pieces = []
    position = 0
    for start, end in dropped:
        pieces.append(text[position:start])
        position = end
    pieces.append(text[position:])
    return "\n\n".join(pieces)


# Tags

_BLOCKS = "p div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 blockquote center poem hr table caption tr td th thead tbody tfoot"
_INLINE = (
    "br b i u s strike del ins em strong small big sub sup span font tt code kbd samp var cite abbr dfn q ruby rb "
    "rt rp rtc bdi bdo mark time data wbr noinclude onlyinclude translate languages tvar nobr"
)
_NAMES = "|".join([*_BLOCKS.split(), *_INLINE.split(), *(name for name in EXTENSIONS if name != "nowiki")])
_TAG = re.compile(rf"<(/?)({_NAMES})(?=[\s/>])[^<>]*>", re.IGNORECASE)
_SHOWN = {"br": " ", "b": BOLD, "strong": BOLD, **dict.fromkeys(_BLOCKS.split(), "\n\n")}


def drop_tags(text: str) -> str:
    """Drops HTML's tags. A block becomes a paragraph, a line break a blank; unknown tags are text."""
    return _TAG.sub(_tag_text, text) if "<" in text else text


def _tag_text(tag: re.Match[str]) -> str:
    shown = _SHOWN.get(tag[2].lower(), "")
    if shown == BOLD and tag[1]:
        return NOT_BOLD
    # A title contains no tags, and letters after a tag are no link trail.
    return shown or (JOINT if tag.string.startswith(("[[", "]]"), tag.start() - 2) else "")


# Conversion between a language's scripts: -{zh-hans:计算机;zh-hant:電腦}-

_CONVERSION = re.compile(r"-\{([^{}]{0,5000})\}-")
_FLAGS = re.compile(r"\s*([A-Z-](?:;[A-Z-])*|[a-z]{2,3}(?:-[a-z]+)?(?:;\s*[a-z]{2,3}(?:-[a-z]+)?)*)?\s*\|")
_VARIANT = re.compile(r"(?:^|;)\s*(?:[^;=>\[\]]*=>\s*)?([a-z]{2,3}(?:-[a-z]{2,6})?)\s*:")
_CONVERTED = frozenset("zh gan wuu sr sh kk ku tg uz iu crh shi ban tly".split())  # languages of several scripts
_MAX_NESTED = 3
_PREFERRED = ("zh-hans", "zh-cn", "zh")


def convert_variants(text: str, lang: str) -> str:
    """Chooses one variant of each conversion: simplified Chinese, or else the first one."""
    if lang not in _CONVERTED:
        return text
    for _ in range(_MAX_NESTED):
        if "-{" not in text:
            break
        text = _CONVERSION.sub(_variant, text)
    return text


def _variant(match: re.Match[str]) -> str:
    body = match[1]
    flags = _FLAGS.match(body)
    if flags:
        if flags[1] and not {"H", "T", "-"}.isdisjoint(flags[1].split(";")):
            return ""  # a rule for the page, its title, or the end of a rule
        body = body[flags.end() :]
        if flags[1] and "R" in flags[1].split(";"):
            return body
    rules = list(_VARIANT.finditer(body))
    if not rules or rules[0].start() > 0:
        return body
    ends = [rule.start() for rule in rules[1:]] + [len(body)]
    texts = {
        rule[1]: body[rule.end() : end].strip(" ;\n") for rule, end in zip(reversed(rules), reversed(ends), strict=True)
    }
    return next((texts[variant] for variant in _PREFERRED if variant in texts), texts[rules[0][1]])


# Magic words (`__NOTOC__`) and external links

_MAGIC_WORD = re.compile(r"__([^\s\[\]|]{2,40}?)__")
_ENGLISH_MAGIC = frozenset(
    "TOC NOTOC FORCETOC NOEDITSECTION NOGALLERY NOTC NOCC START END INDEX NOINDEX DISAMBIG".split()
)
_SCHEME = "https?:|ftps?:|//|mailto:|news:|ircs?:|gopher:"
_EXTERNAL_LINK = re.compile(
    rf"\[(?:{_SCHEME})[^\s\[\]<>]*(?=[\s\[\]<>]) ?((?:[^\[\]\n]|\[\[[^\[\]\n]*\]\]|\[(?!\[|{_SCHEME}))*)\]",
    re.IGNORECASE,
)


def drop_magic_words(text: str) -> str:
    """Drops magic words such as `__NOTOC__`, which each language has under its own names, in capitals."""
    if "＿＿" in text:
        text = text.replace("＿＿", "__")
    return _MAGIC_WORD.sub(_magic_text, text) if "__" in text else text


def _magic_text(match: re.Match[str]) -> str:
    word = match[1]
    if word.upper() in _ENGLISH_MAGIC:
        return ""
    # Other languages' magic words touch no letter or digit; ASCII ones are longer than `__FILE__`.
    start, end = match.span()
    is_alone = not any(match.string[index : index + 1].isalnum() for index in (start - 1, end))
    return "" if is_alone and word == word.upper() and (len(word) > 4 or not word.isascii()) else match[0]


def show_external_links(text: str) -> str:
    """Replaces each external link by its label."""
    return _EXTERNAL_LINK.sub(r"\1", text)


# Links whose target begins with a prefix

_PREFIXED = re.compile(r"\[\[[ _]{0,2}(:?)([^\[\]|:#<>\n]{1,60}):")
_BRACKETS = re.compile(r"\[\[|\]\]")
_NEAR = 100  # brackets to look at for a link's end before all brackets of the page are paired
# A label may contain single brackets, but no "[[": of nested links only the innermost is a link.
LABEL = r"[^\[\]]*(?:(?:\[(?!\[)[^\[\]]*\]|\[(?!\[|[^\[\]]*\])|\](?!\]))[^\[\]]*)*"
_PLAIN_LINK = re.compile(rf"\[\[[ _]{{0,2}}:?([^\[\]|\n]*)(?:\|({LABEL}))?\]\]")
_FILE, _CATEGORY = 6, 14


def drop_prefixed_links(text: str, site: Site) -> str:
    """Drops files, categories and links to other languages, and replaces links to other namespaces by their labels.

    Links with an unknown prefix stay: they are titles with a colon.
    """
    pieces: list[str] = []
    position = 0
    ends: dict[int, int] | None = None
    for match in _PREFIXED.finditer(text):
        start = match.start()
        if start < position:
            continue
        prefix = match[2].replace("_", " ").strip().lower()
        namespace = site.namespaces.get(prefix)
        if namespace is None and prefix not in site.interwiki:
            continue
        if not match[1] and (namespace in (_FILE, _CATEGORY) or (namespace is None and prefix in LANGUAGE_PREFIXES)):
            end = _near_end(text, match.end()) if ends is None else ends.get(start, -1)
            if end < 0:
                ends = _paired(text) if ends is None else ends
                end = ends.get(start, -1)
                if end < 0:
                    continue
            shown = ""
        else:
            link = _PLAIN_LINK.match(text, start)
            if link is None:
                continue
            end, shown = link.end(), link[2] or link[1]
        pieces += (text[position:start], shown)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _near_end(text: str, inside: int) -> int:
    """Returns the end of the link whose text begins at `inside` and may contain links, or -1 if it is not near."""
    depth = 1
    for number, bracket in enumerate(_BRACKETS.finditer(text, inside)):
        depth += 1 if bracket[0] == "[[" else -1
        if not depth:
            return bracket.end()
        if number > _NEAR:
            break
    return -1


def _paired(text: str) -> dict[int, int]:
    """Maps the start of each link to its end."""
    ends: dict[int, int] = {}
    waiting: list[int] = []
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] == "[[":
            waiting.append(bracket.start())
        elif waiting:
            ends[waiting.pop()] = bracket.end()
    return ends
