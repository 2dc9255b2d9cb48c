"""Splits a text whose words are not known into words."""

from __future__ import annotations

import re
import unicodedata

from schemas.spans import CharSpan

JOINERS = "\u00ad\u200c\u200d"  # soft hyphen, zero-width non-joiner and joiner, which occur inside words and emoji
# Letters of scripts that are written without blanks: Thai, Lao, Burmese, Khmer, Kana, Han.
ALONE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
                   "\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]")  # fmt: skip


def words_of(text: str) -> tuple[CharSpan, ...]:
    """Splits a text into words.

    Runs of letters, digits and underscores with their marks are words; every other character is a word of its own, and
    so is every letter of a script that is written without blanks. Marks and joiners stay with the character before
    them, so that no emoji and no syllable is cut; other invisible characters separate words, as blanks do.
    """
    spans: list[CharSpan] = []
    grows = False  # whether a letter would continue the last word
    for index, char in enumerate(text):
        category = unicodedata.category(char)
        adjoins = bool(spans) and spans[-1].end == index
        if adjoins and (category[0] == "M" or char in JOINERS or text[index - 1] == "\u200d"):
            spans[-1] = CharSpan(spans[-1].start, index + 1)
        elif category[0] == "Z" or category in ("Cc", "Cf"):
            grows = False
        elif (category[0] in "LMN" or category == "Pc") and not ALONE.match(char):
            if grows and adjoins:
                spans[-1] = CharSpan(spans[-1].start, index + 1)
            else:
                spans.append(CharSpan(index, index + 1))
            grows = True
        else:
            spans.append(CharSpan(index, index + 1))
            grows = False
    return tuple(spans)
