"""Finds dates, times, amounts and plain numbers in English text, with regular expressions and spaCy's labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.steps.common.sentence_pairs import EntityMention
from schemas.spans import CharSpan

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan\.?|Feb\.?|Mar\.|Apr\.?|Jun\.?|Jul\.?|Aug\.?|Sept?\.?|Oct\.?|Nov\.?|Dec\.?)"
)
_DAY = r"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_SMALL = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    r"|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
)
_NUMBER = rf"(?:\d+(?:[.,]\d+)*|{_SMALL}(?:-(?:one|{_SMALL}))?|(?:a|one)(?=\s(?:hundred|thousand|million|billion)))"
_SCALE = r"(?:\s(?:hundred|thousand|million|billion|trillion))*"
_UNITS = {
    "DATE": r"days?|weeks?|months?|years?|decades?|centur(?:y|ies)",
    "TIME": r"hours?|minutes?|seconds?",
    "MONEY": r"dollars?|euros?|pounds?|yen|rupees?|yuan|roubles?|rubles?|francs?|pesos?|cents?|USD|EUR|GBP",
    "QUANTITY": r"(?:square|cubic)\s\w+|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|foot|inch(?:es)?|cm|mm|kg"
    r"|kilograms?|grams?|tons?|tonnes?|acres?|hectares?|lit(?:er|re)s?|gallons?|mph|km/h|degrees?|mg|ml|GB|MB|kW|MW",
}
_EXPRESSION = re.compile(
    rf"""(?<![\w.,/:-])(?:
      (?P<MONEY> (?:US|C|A|HK|NZ)?[$€£¥₹]\s?\d+(?:[.,]\d+)*[kmb]?{_SCALE} | {_NUMBER}{_SCALE}\s(?:{_UNITS["MONEY"]})\b )
    | (?P<PERCENT> {_NUMBER}\s?(?:%|percent\b|per\scent\b) )
    | (?P<TIME> \d{{1,2}}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\b\.?)?
              | \d{{1,2}}\s?(?:[ap]\.m\.|[ap]m\b) | {_NUMBER}\so['’]clock\b
              | {_NUMBER}{_SCALE}[ -](?:{_UNITS["TIME"]})\b | tonight\b )
    | (?P<DATE> (?:{_DAY},?\s)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?)?
                {_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?!\w)(?:,?\s\d{{4}})?
              | (?:{_DAY},?\s)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?)?{_MONTH}(?:,?\s\d{{4}})?(?!\w)
              | \d{{4}}-\d\d-\d\d | \d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}
              | (?:(?:last|next|this|past)\s)?{_DAY}s?\b
              | (?:the\s)?(?:(?:early|mid|late)[ -])?\d{{1,2}}(?:st|nd|rd|th)[ -]century\b
              | (?:the\s)?(?:(?:early|mid|late)[ -])?(?:1\d|20)\d0s\b
              | (?:last|next|this|past)\s(?:day|week(?:end)?|month|year|decade|century|spring|summer|autumn|winter)\b
              | {_NUMBER}{_SCALE}[ -](?:{_UNITS["DATE"]})(?:\s(?:ago|earlier|later)|[ -]old)?\b
              | (?:1[0-9]|20)\d\d(?:[-–/]\d\d(?:\d\d)?)?(?![\w%]|[.,:]\d) | yesterday\b | today\b | tomorrow\b )
    | (?P<QUANTITY> {_NUMBER}{_SCALE}[ -]?(?:{_UNITS["QUANTITY"]})\b )
    | (?P<ORDINAL> \d+(?:st|nd|rd|th)\b | (?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b )
    | (?P<CARDINAL> {_NUMBER}{_SCALE}(?![\w/:-]|[.,]\d) )
    )""",
    re.VERBOSE,
)


_BEFORE_MAY = re.compile(
    r"\b(?:in|since|until|till|by|of|from|to|last|next|this|early|mid|late|during|and)[ -]$", re.IGNORECASE
)


def expressions(text: str) -> Iterator[EntityMention]:
    """Yields the mentions in the order of the text. They may overlap names."""
    for match in _EXPRESSION.finditer(text):
        assert match.lastgroup is not None  # every alternative is named
        month = match.group() == "May"  # or a verb, or a name: only "in May" and the like
        if match.group() != "second" and (not month or _BEFORE_MAY.search(text, 0, match.start())):
            yield EntityMention(CharSpan(*match.span()), match.lastgroup)
