"""Stages of the wikitext scanner that drop comments and extension tags, and hide text that must not become markup.

A character of `<nowiki>` or of an entity that would be markup is replaced by one control character, which XML cannot
contain and no regex of the scanner matches. `restore` puts it back when all markup is gone. So offsets never move.
"""

from __future__ import annotations

import re
from html.entities import html5

_MARKUP = "[]{}<>='*#:;|_-&"
_HIDDEN = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14"
_HIDE = dict(zip(map(ord, _MARKUP), _HIDDEN, strict=True))
_RESTORE = dict(zip(_HIDDEN, _MARKUP, strict=True))
_HIDDEN_AMPERSAND = _HIDE[ord("&")]
JOINT = "\x15"
"""It separates two pieces of markup (`<nowiki/>`), or a link from the letters after it, and is invisible."""

_DROPPED = (
    "ref references math chem ce gallery timeline score graph chart mapframe maplink hiero imagemap inputbox rss "
    "syntaxhighlight source templatedata templatestyles categorytree indicator charinsert dynamicpagelist section quiz "
    "includeonly phonos"
)
EXTENSIONS = f"{_DROPPED} nowiki pre".split()
# A tag's attributes end at the next "<", so that a page of unclosed tags is read in linear time.
_TOKEN = re.compile(rf"<!--|<(/?)({'|'.join(EXTENSIONS)})(?=[\s/>])[^<>]*>", re.IGNORECASE)


def drop_extensions(text: str) -> str:
    """Drops comments and extension tags, and hides the text in nowiki from all further stages.

    As in MediaWiki, the first one that opens wins, a tag that is never closed is no extension, and a comment that is
    never closed takes the rest of the page.
    """
    tokens = list(_TOKEN.finditer(text)) if "<" in text else []
    if not tokens:
        return text
    last_close = {token[2].lower(): number for number, token in enumerate(tokens) if token[1]}
    pieces: list[str] = []
    position = number = 0
    while number < len(tokens):
        token = tokens[number]
        number += 1
        start, end = token.span()
        if start < position or token[1]:  # inside dropped text, or a closing tag without an opening one
            continue
        shown = ""
        if token[2] is None:
            close = text.find("-->", end)
            end = close + 3 if close >= 0 else len(text)
        else:
            name = token[2].lower()
            literal = name in ("nowiki", "pre")
            if text[end - 2] != "/":
                if last_close.get(name, -1) < number:
                    continue
                while not (tokens[number][1] and tokens[number][2].lower() == name):
                    number += 1
                if literal:
                    shown = hide(_ENTITY.sub(_character, text[end : tokens[number].start()]))
                end = tokens[number].end()
                number += 1
            if literal:
                shown = f"\n\n{shown}\n\n" if name == "pre" else f"{JOINT}{shown}{JOINT}"
            elif text.startswith(("]]", "''"), start - 2):
                shown = JOINT
        pieces += (text[position:start], shown)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


# Blanks of every width become " "; direction marks, soft hyphens and byte-order marks are invisible.
_BLANKS = "\t\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_BLANKS += "\u2028\u2029\u202f\u205f\u3000"
_UNSEEN = "\xad\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_SPACES = {**dict.fromkeys(_BLANKS, " "), **dict.fromkeys(_UNSEEN, "")}
_ODD_SPACE = re.compile(f"[{_BLANKS}{_UNSEEN}]")


def plain_spaces(text: str) -> str:
    """Replaces blanks of every kind by " " and drops invisible characters; newlines stay."""
    return _ODD_SPACE.sub(lambda match: _SPACES[match[0]], text)


_ENTITY = re.compile(r"&(?:#[xX]([0-9a-fA-F]{1,6})|#([0-9]{1,7})|([A-Za-z][A-Za-z0-9]{1,31}));")
# MediaWiki's own names of the right-to-left mark; they are dropped like the mark itself.
_RIGHT_TO_LEFT_MARK = re.compile("&(?:רלמ|رلم);")
_TARGET_WITH_ENTITY = re.compile(r"\[\[([^\[\]|&\n]*&[^\[\]|\n]*)([|\]])")


def decode_entities(text: str) -> str:
    """Replaces each entity by its character, which is no markup; entities in links' targets stay."""
    if "&" not in text:
        return text
    text = text.replace("&nbsp;", " ").replace("]]&", f"]]{JOINT}&")
    text = _TARGET_WITH_ENTITY.sub(_hide_target, text)
    return _ENTITY.sub(_character, _RIGHT_TO_LEFT_MARK.sub("", text))


def _hide_target(match: re.Match[str]) -> str:
    target, end = match.groups()
    hidden = target.replace("&", _HIDDEN_AMPERSAND)
    return f"[[{hidden}|" if end == "|" else f"[[{hidden}|{target}]"


def _character(match: re.Match[str]) -> str:
    hexadecimal, decimal, name = match.groups()
    if name:
        character = html5.get(f"{name};", "")
        if len(character) != 1:
            return match[0]
    else:
        code = int(hexadecimal, 16) if hexadecimal else int(decimal)
        # As in MediaWiki, code points that XML cannot contain and the control codes after ASCII are no characters.
        if (code < 32 and code not in (9, 10, 13)) or 127 <= code < 160 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            return match[0]
        character = chr(code)
    if character.isspace():
        return " "
    return _SPACES.get(character, character).translate(_HIDE)


def hide(text: str) -> str:
    """Hides the characters that could be markup."""
    return text.translate(_HIDE)


def hidden_in(text: str) -> str:
    """Returns the hidden characters that occur in `text`."""
    return "".join(filter(text.__contains__, _HIDDEN))


def restore(text: str, hidden: str) -> str:
    """Puts the hidden characters back as they were written."""
    for character in hidden:
        text = text.replace(character, _RESTORE[character])
    return text
