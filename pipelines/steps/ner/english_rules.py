"""The built-in English tagger: capitals, word lists and cue words, without a model or state between texts.

A text goes through four steps, each a function below:

1. `tokenize` splits it into words, numbers and punctuation with their offsets.
2. `_runs` finds maximal sequences of capitalised words, joined over `of`, `van der`, `&` and the like.
3. `_segments` splits a run at titles, nationalities and dates; `_trimmed` leaves a name of each segment, or nothing.
4. `_label` guesses the type (spaCy's names: PERSON, ORG, GPE, LOC, FAC, NORP, EVENT …).

Regular expressions find dates, times and quantities in the text between names. The word lists in `data/entities_en`
were written by hand from general knowledge; nothing was learned from data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.steps.common.sentence_pairs import EntityMention
from pipelines.steps.ner.english_numbers import expressions
from pipelines.steps.ner.english_words import (
    ACRONYM,
    ADJECTIVES,
    CLOSING,
    COMPANY,
    CUES,
    DERIVED,
    FIRST,
    FOR,
    FUNCTION,
    GENERATION,
    HEADS,
    HYPHENS,
    NORP,
    NOT_LOWER,
    OF,
    OPENING,
    PARTICLE,
    PHRASES,
    POSSESSED,
    PREFIX,
    ROYAL,
    SENTENCE_END,
    SURNAMES,
    Phrase,
    Token,
    is_common,
    tokenize,
)
from schemas.spans import CharSpan

VERSION = "1"
LABELS = (
    "CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LOC", "MONEY", "NORP", "ORDINAL", "ORG", "PERCENT", "PERSON",
    "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART",
)  # fmt: skip


# ---------------------------------------------------------------- runs of capitalised words


class Unit(NamedTuple):
    """A known phrase, a capitalised word, or a small word that joins two of them ("link", "particle")."""

    start: int
    end: int
    text: str
    lower: str
    kind: str  # GPE ORG NORP first name initial suffix common title calendar link particle
    weak: bool  # perhaps capitalised only for its position
    common: bool  # also an ordinary word


def _capital(text: str) -> bool:
    return text[0].isupper() or (not text.islower() and text.lower() != text)


def _kind(text: str, lower: str, common: bool) -> str:
    if lower in CUES["calendar"] or (lower.endswith("days") and lower[:-1] in CUES["calendar"]):
        return "calendar"
    if text in NORP or (text[-1] == "s" and text[:-1] in NORP and text not in FIRST):
        return "NORP"
    if lower in GENERATION and (text.isupper() or "r" in lower):
        return "suffix"
    if text in FIRST:
        return "first"
    if lower in CUES["title"]:
        return "title"
    if len(text) == 1 or (len(text) == 2 and text[1] == "."):
        return "initial"
    return "common" if common or lower in ACRONYM else "name"


def _phrase_at(tokens: Sequence[Token], i: int, exact: bool) -> Phrase | None:
    for phrase in PHRASES.get(tokens[i].text.lower(), ()):
        words = phrase.words if exact else phrase.lower
        size = len(words)
        if i + size <= len(tokens) and all(
            (token.text if exact else token.text.lower()) == word
            for token, word in zip(tokens[i : i + size], words, strict=False)
        ):
            return phrase
    return None


def _is_weak(tokens: Sequence[Token], i: int) -> bool:
    while i and tokens[i - 1].text in OPENING | HYPHENS | {"*", "•", ">", "("}:
        if tokens[i - 1].text in OPENING:
            return True
        if tokens[i - 1].text == "(" or tokens[i - 1].end == tokens[i].start:
            return i == 1
        i -= 1
    if i > 1 and tokens[i - 1].text in CLOSING:
        i -= 1
    return i == 0 or (tokens[i - 1].text[-1] in SENTENCE_END and not tokens[i - 1].is_word)


def _unit(tokens: Sequence[Token], i: int, all_weak: bool) -> tuple[Unit, int] | None:
    """Returns the unit that begins at token `i`, and the index after it; None where no name begins."""
    token = tokens[i]
    if not token.is_word or not _capital(token.text):
        return None
    weak = all_weak or _is_weak(tokens, i)
    lower = token.text.lower()
    if phrase := _phrase_at(tokens, i, exact=True):
        end = i + len(phrase.words)
        common = end == i + 1 and is_common(lower)
        return Unit(token.start, tokens[end - 1].end, token.text, tokens[end - 1].text.lower(), phrase.label, weak,
                    common), end  # fmt: skip
    common = is_common(lower) or (weak and DERIVED.search(lower) is not None)
    if lower in FUNCTION and lower not in ADJECTIVES and token.text not in FIRST and (weak or lower != "may"):
        return None
    return Unit(token.start, token.end, token.text, lower, _kind(token.text, lower, common), weak, common), i + 1


def _capital_at(tokens: Sequence[Token], i: int) -> bool:
    return i < len(tokens) and tokens[i].is_word and tokens[i].text[0].isupper()


# What may join the words of a name. Each rule gets a run, the tokens and the index of the small word that follows the
# run, and returns the index of the capitalised word that continues the run, or 0 where the run ends.


def _over_hyphen(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Anglo-Dutch Society, but not France-Germany."""
    hyphen, last = tokens[i], run[-1]
    if hyphen.start != last.end or not _capital_at(tokens, i + 1) or tokens[i + 1].start != hyphen.end:
        return 0
    two_countries = last.kind == "GPE" and _phrase_at(tokens, i + 1, exact=True) is not None
    return 0 if two_countries else i + 1


def _over_possessive(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins St. Mary's Hospital, but not Anna's House."""
    owner = run[-1].kind in ("first", "name", "common")
    return i + 1 if owner and _capital_at(tokens, i + 1) and tokens[i + 1].text.lower() in POSSESSED else 0


def _over_ampersand(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Marks & Spencer."""
    return i + 1 if _capital_at(tokens, i + 1) else 0


def _over_comma(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Apple, Inc."""
    return i + 1 if i + 1 < len(tokens) and tokens[i + 1].text.lower() in COMPANY else 0


def _over_of(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Bank of the South and Center for Disease Control; but not Minister of Finance."""
    governing = OF if tokens[i].text.lower() == "of" else FOR
    if run[-1].lower not in governing or run[-1].kind == "title":
        return 0
    has_article = i + 1 < len(tokens) and tokens[i + 1].text.lower() == "the"
    name = i + 2 if has_article else i + 1
    return name if _capital_at(tokens, name) else 0


def _over_and(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Department of Health and Human Services, but not Hanoi and Hue."""
    last = run[-1]
    if not _capital_at(tokens, i + 1) or not last.common or last.kind in ("GPE", "ORG", "title") or last.lower in HEADS:
        return 0
    ahead = [tokens[i + 1].text.lower()]
    for token in tokens[i + 2 : i + 4]:
        if not token.is_word or not _capital(token.text):
            break
        ahead.append(token.text.lower())
    governed = any(unit.lower in ("of", "for") for unit in run)
    ends_like_organisation = len(ahead) > 1 and ahead[-1] in CUES["org_head"]
    return i + 1 if (governed or ends_like_organisation) and is_common(ahead[0]) else 0


def _over_particles(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Joins Ludwig van der Rohe and Bashar al-Assad: at most four small words may follow a person's name."""
    name = i
    while name < min(len(tokens), i + 4) and (
        tokens[name].text in PARTICLE or (name > i and tokens[name].text in HYPHENS)
    ):
        name += 1
    if name == i:
        return 0
    last = run[-1]
    person = last.kind in ("first", "name", "initial") or (last.kind in ("GPE", "common") and not last.weak)
    return name if person and _capital_at(tokens, name) and tokens[name].text.lower() not in FUNCTION else 0


_JOINING_RULES = dict.fromkeys(HYPHENS, _over_hyphen) | {
    "'s": _over_possessive,
    "’s": _over_possessive,
    "&": _over_ampersand,
    ",": _over_comma,
    "of": _over_of,
    "for": _over_of,
    "and": _over_and,
}


def _next_name(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> int:
    """Returns the index of the capitalised word that continues `run` after the small words at `i`, or 0."""
    return _JOINING_RULES.get(tokens[i].text.lower(), _over_particles)(run, tokens, i)


def _is_syllable(run: Sequence[Unit], tokens: Sequence[Token], i: int) -> bool:
    """Returns whether a hyphen and a short syllable follow, such as the "-un" of "Kim Jong-un"."""
    return (
        len(run) > 1 and run[-1].kind == "name" and not run[-1].common and run[-1].text.isalpha()
        and tokens[i].text in HYPHENS and tokens[i].start == run[-1].end
        and i + 1 < len(tokens) and tokens[i + 1].start == tokens[i].end
        and len(tokens[i + 1].text) <= 4 and tokens[i + 1].text.islower() and not is_common(tokens[i + 1].text)
    )  # fmt: skip


def _runs(tokens: Sequence[Token], all_weak: bool) -> Iterator[list[Unit]]:
    run: list[Unit] = []
    i = 0
    while i < len(tokens):
        if found := _unit(tokens, i, all_weak):
            unit, i = found
            run.append(unit)
            continue
        if run and _is_syllable(run, tokens, i):
            run.append(Unit(tokens[i].start, tokens[i + 1].end, "-", "-", "suffix", False, False))
            i += 2
            continue
        j = _next_name(run, tokens, i) if run else 0
        if j and _unit(tokens, j, all_weak) is not None:
            kind = "link"
        else:
            if run:
                yield run
                run = []
            j, kind = i + 1, "particle"
            if tokens[i].text in CUES["leading_particle"]:
                j += j < len(tokens) and tokens[j].text in HYPHENS
                if not (_capital_at(tokens, j) and (found := _unit(tokens, j, all_weak)) and found[0].kind == "name"):
                    j = i + 1
                    kind = ""
            else:
                kind = ""
        if kind:
            run += [Unit(t.start, t.end, t.text, t.text.lower(), kind, False, False) for t in tokens[i:j]]
        i = j
    if run:
        yield run


# ---------------------------------------------------------------- from runs to names


def _organised(units: Sequence[Unit]) -> bool:
    """Returns whether a name follows that ends (or governs) like an organisation, a building or an event."""
    for index, unit in enumerate(units):
        if unit.kind in ("calendar", "title", "first"):
            return False
        ends = index + 1 == len(units) or units[index + 1].kind in ("link", "calendar")
        if ends and (unit.lower in HEADS or unit.lower in CUES["event_head"]):
            return True
    return False


def _keeps_title(run: Sequence[Unit], k: int, segment: Sequence[Unit]) -> bool:
    """Returns whether the title is part of the name: General Motors, Stephen King, Ministry of Justice."""
    rest = run[k + 1 :]
    if segment and (segment[-1].kind == "link" or (run[k].lower in SURNAMES and segment[-1].kind in _PERSONAL)):
        return True
    if not rest or rest[0].kind == "link":
        return False
    return rest[0].lower in HEADS or (run[k].lower in ROYAL and run[k].kind == "title" and rest[-1].lower in HEADS)


_PERSONAL = frozenset(("first", "name", "initial"))


def _segments(run: Sequence[Unit]) -> Iterator[tuple[list[Unit], bool]]:
    """Yields the parts of a run that may be names, and whether a title precedes each."""
    segment: list[Unit] = []
    titled = office = False
    for k, unit in enumerate(run):
        office = office and unit.kind in ("link", "common")
        if unit.kind == "calendar" and not (segment and segment[-1].kind == "first"):
            yield segment, titled
            segment, titled = [], False
        elif unit.kind == "title" and not _keeps_title(run, k, segment):
            yield segment, titled
            segment, titled = [], True
            office = k + 1 < len(run) and run[k + 1].kind == "link"  # Secretary of Defense …
        elif office and unit.kind in ("link", "common"):
            continue
        elif unit.kind == "NORP" and not _organised(run[k + 1 :]) and not (segment and segment[-1].kind == "link"):
            if segment and segment[-1].kind != "NORP":
                yield segment, titled
                segment, titled = [], False
            segment.append(unit)
        elif segment and (_leaves_people(segment, run[k:]) or _is_verb(segment, unit)):
            yield segment, titled
            segment, titled = [unit], False
        else:
            segment.append(unit)
    yield segment, titled


def _leaves_people(segment: Sequence[Unit], rest: Sequence[Unit]) -> bool:
    """Returns whether a name begins after nationalities: German | Angela Brellik, but Iraqi Islamic Party."""
    people = all(unit.kind == "NORP" for unit in segment)
    return people and rest[0].kind not in ("link", "suffix") and not _organised(rest)


def _is_verb(segment: Sequence[Unit], unit: Unit) -> bool:
    """Returns whether an ordinary word ends the name before it, in a headline where every word has a capital."""
    return (
        unit.weak
        and unit.kind == "common"
        and unit.lower not in HEADS
        and unit.lower not in CUES["event_head"]
        and all(other.kind != "link" for other in segment)
    )


def _trimmed(segment: list[Unit]) -> list[Unit]:
    """Removes small words at the edges, and a first word capitalised only for its position; may leave nothing."""
    first, last = 0, len(segment)
    while first < last and segment[first].kind in ("link", "suffix"):
        first += 1
    while last > first and segment[last - 1].kind in ("link", "particle"):
        last -= 1
    units = segment[first:last]
    if (
        units
        and units[0].weak
        and units[0].common
        and units[0].kind in ("common", "initial", "title", "first", "GPE", "ORG")
    ):
        following = units[1] if len(units) > 1 else None
        known = following is not None and following.kind in ("first", "GPE", "ORG", "NORP", "initial")
        if following is None or (known and units[0].lower not in PREFIX and units[0].kind == "common"):
            return _trimmed(units[1:])
        if following.weak and units[0].kind == "common" and units[-1].lower not in HEADS:
            return _trimmed(units[1:])
    if all(unit.kind in ("common", "initial", "suffix", "link", "title") for unit in units):
        names_something = units[-1].lower in HEADS or units[0].lower in OF if units else False
        shouted = all(unit.text.isupper() and len(unit.text) > 1 for unit in units)
        if len(units) < 2 or shouted or not (names_something or not units[0].weak):
            return []
    return units


def _label(units: Sequence[Unit], titled: bool, before: str) -> str:
    """Guesses the type of a name. `before` is the lower-case word before it, or ""."""
    first, last = units[0], units[-1]
    lowers = [unit.lower for unit in units]
    if all(unit.kind in ("NORP", "link") for unit in units):
        return "NORP"
    if len(units) == 1 and first.kind in ("GPE", "ORG"):
        return first.kind
    if titled and len(units) <= 4 and last.lower not in HEADS:
        return "PERSON"
    if any(char.isdigit() for unit in units for char in unit.text):
        return "PRODUCT"
    governing = lowers[lowers.index("of") - 1] if "of" in lowers[1:] else ""
    for word in filter(None, (governing, last.lower)):
        for label, kind in (("EVENT", "event_head"), ("ORG", "org_head"), ("FAC", "fac_head"), ("LOC", "loc_head")):
            if word in CUES[kind] and len(units) > 1:
                return label
    if first.lower in ("hurricane", "operation", "typhoon", "cyclone") and len(units) > 1:
        return "EVENT"
    if any(lower in COMPANY - {"jr", "jr.", "sr", "sr."} or lower == "&" for lower in lowers):
        return "ORG"
    if (
        first.kind in ("first", "particle")
        or (len(units) > 1 and first.text in FIRST)
        or any(unit.kind == "initial" for unit in units)
    ):
        return "PERSON"
    if any(unit.kind in ("ORG", "NORP", "common") for unit in units[:1]) and first.lower not in PREFIX:
        return "ORG"
    if first.lower in PREFIX or first.kind == "GPE":
        return "LOC" if first.kind != "GPE" else "ORG"
    if first.text.isupper() and len(first.text) > 1:
        return "ORG"
    if len(units) == 1 and before in ("in", "at", "from", "near", "to", "outside", "across", "toward", "towards"):
        return "GPE"
    if before == "the":
        return "ORG"
    return "PERSON" if len(units) <= 3 else "ORG"


# ---------------------------------------------------------------- the tagger


def _case(tokens: Sequence[Token]) -> str:
    """Returns how the line uses capitals: "normal", "title" (headlines), "upper" or "lower"."""
    words = [token.text for token in tokens if token.is_word and len(token.text) > 1]
    capitals = sum(word[0].isupper() for word in words)
    if not capitals:
        return "lower"
    if len(words) > 2 and sum(word.isupper() for word in words) >= 0.7 * len(words):
        return "upper"
    long = [word for word in words if len(word) > 3 and word not in FUNCTION]
    if len(long) > 3 and sum(word[0].isupper() for word in long) >= 0.9 * len(long):
        return "title"
    return "normal"


def _known_names(tokens: Sequence[Token], upper: bool) -> Iterator[EntityMention]:
    """Yields the listed names, for text whose capitals carry no information."""
    i = 0
    while i < len(tokens):
        token, size, label = tokens[i], 1, ""
        lower = token.text.lower()
        if token.is_word:
            phrase = _phrase_at(tokens, i, exact=False)
            if phrase and (len(phrase.words) > 1 or (len(lower) > 3 and not is_common(lower) and lower not in NOT_LOWER)
                           or (upper and phrase.words[0] == token.text and not is_common(lower))):  # fmt: skip
                size, label = len(phrase.words), phrase.label
            elif lower.title() in NORP and not is_common(lower):
                label = "NORP"
            elif upper and token.text.title() in FIRST and not is_common(lower):
                label = "PERSON"
                while (
                    i + size < len(tokens) and tokens[i + size].is_word and not is_common(tokens[i + size].text.lower())
                ):
                    size += 1
        if label:
            yield EntityMention(CharSpan(token.start, tokens[i + size - 1].end), label)
        i += size


_QUOTED = re.compile(r"[“\"‘]([A-Z0-9][^“”\"‘’]{3,60}?)[,.]?[”\"’]")


def _titles(text: str) -> Iterator[CharSpan]:
    """Yields the quoted titles of works: “The Lion King”."""
    for match in _QUOTED.finditer(text):
        words = match.group(1).split()
        title = len(words) > 1 and all(len(word) < 4 or not word[0].islower() for word in words)
        if title and any(is_common(word.lower()) for word in words) and words[-1].istitle():
            yield CharSpan(match.start(1), match.end(1))


def _names(text: str, tokens: Sequence[Token], title_case: bool) -> Iterator[EntityMention]:
    works = list(_titles(text))
    for span in works:
        yield EntityMention(span, "WORK_OF_ART")
    before = {tokens[i].start: tokens[i - 1].text.lower() for i in range(1, len(tokens))}
    for run in _runs(tokens, title_case):
        for segment, titled in _segments(run):
            units = _trimmed(segment)
            if not units:
                continue
            span = CharSpan(units[0].start, units[-1].end)
            if not any(span.start < work.end and work.start < span.end for work in works):
                yield EntityMention(span, _label(units, titled, before.get(span.start, "")))


def tag(text: str) -> list[EntityMention]:
    """Returns the mentions of one English text: sorted, disjoint, without white space at their edges."""
    tokens = tokenize(text)
    case = _case(tokens)
    named = (
        _known_names(tokens, case == "upper") if case in ("upper", "lower") else _names(text, tokens, case == "title")
    )
    names = sorted(named)
    mentions = list(names)
    for mention in expressions(text):
        if not any(mention.span.start < name.span.end and name.span.start < mention.span.end for name in names):
            mentions.append(mention)
    return sorted(mentions)
