"""The built-in English tagger: one readable line per rule, properties on any text, and a floor on real data."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.steps.ner.english_rules import LABELS, tag
from pipelines.steps.ner.english_words import is_common

MARK = re.compile(r"\[([^\[\]]+)\|([A-Z_]+)\]")


def unmarked(marked: str) -> tuple[str, list[tuple[int, int, str]]]:
    """`"[Anna|PERSON] sings"` to the text and its spans."""
    text, spans, end = "", [], 0
    for match in MARK.finditer(marked):
        text += marked[end : match.start()]
        spans.append((len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        end = match.end()
    return text + marked[end:], spans


def found(text: str) -> list[tuple[int, int, str]]:
    return [(*mention.span, mention.label) for mention in tag(text)]


@pytest.mark.parametrize(
    "marked",
    [
        # capitals inside a sentence name something, those at its beginning may not
        "The cook met [Quillon|PERSON] at noon.",
        "Nobody knew why. Walking helped. [Brellik|PERSON] agreed.",
        "“Nothing helps,” [Brellik|PERSON] said.",
        "She saw the Government and the Committee.",
        "I think TV and DVDs bore him.",
        # people: titles stay outside, particles, initials and generations inside
        "President [Anna Quillon|PERSON] and Dr. [Brellik|PERSON] met.",
        "Prime Minister [Oda Vell|PERSON] thanked Mr [Tarn|PERSON].",
        "We met [Ludwig van der Brellik|PERSON] and [bin Quillon|PERSON].",
        "They read [J. R. Quillon|PERSON] and [Martin Tarn Jr.|PERSON] aloud.",
        "He likes [Stephen King|PERSON] and [Theresa May|PERSON].",
        "There [Kim Jong-un|PERSON] waited.",
        "It is [Anna|PERSON]'s House, and he is Minister of Finance.",
        "It was [Muqtada al-Brellik|PERSON] again.",
        # places
        "She flew from [New York|GPE] to [Hanoi|GPE], then to [Dresden|GPE].",
        "[Anna|PERSON] lives in [Hanoi|GPE].",
        "They crossed the [Quill River|LOC] near [Mount Brellik|LOC] by the [Gulf of Mexico|LOC].",
        "The [U.S.|GPE] and the [Philippines|GPE] signed.",
        "A [Paris|GPE]-based firm has no [U.S.|GPE]-[China|GPE] trade.",
        "They fear a [France|GPE]-[Germany|GPE] war in the [Bank of the South|ORG].",
        "We walked down [Brellik Street|FAC] to the [Quillon Museum|FAC].",
        # organisations: heads, "of", "and", "for", "&", company suffixes, acronyms
        "He left the [University of Tarnfield|ORG] for [Quillon & Sons|ORG].",
        "The [Department of Housing and Urban Development|ORG] paid [Brellik, Inc.|ORG] twice.",
        "The [Center for Disease Control|ORG] called [NATO|ORG] and [QRX|ORG].",
        "The [Ministry of Justice|ORG] wrote to [General Motors|ORG].",
        "He prayed at [St. Mary's Hospital|ORG] with [Coca-Cola|ORG].",
        "Then [Brellik|PERSON] and [Tarn|PERSON] left.",
        # a possessive is no part of a name
        "That is [Obama|PERSON]'s and [Germany|GPE]’s plan.",
        # nationalities stand apart, unless an organisation begins with them
        "[German|NORP] Chancellor [Angela Brellik|PERSON] spoke [French|NORP].",
        "The [Iraqi Islamic Party|ORG] met [Iranians|NORP].",
        # events, works and products
        "After the [Battle of Brellik|EVENT] came [Hurricane Rosa|EVENT].",
        "She sang in “[The Lion of the North|WORK_OF_ART]”.",
        "The [SARS-CoV-2|PRODUCT] virus spread.",
        # headlines, capitals only, small letters only
        "[Brellik|PERSON] Visits [China|GPE] After Strange Election Results",
        "[ANNA|PERSON] WALKED HOME TO [LONDON|GPE] WITH FRIENDS",
        "i went from [san francisco|GPE] to [mexico|GPE] in turkey season",
        # dates, times, amounts
        "On [Monday, 3 May 2021|DATE] at [10:30 am|TIME] he may pay [$3.5 million|MONEY].",
        "It fell [40 percent|PERCENT] in [May|DATE] by [12 km|QUANTITY], a [3rd|ORDINAL] time in [two years|DATE].",
        "Since [the 1990s|DATE] [forty|CARDINAL] people and [1,200|CARDINAL] horses left [yesterday|DATE].",
        # addresses are not names
        "Write to Anna.Brellik@example.com or see www.Brellik.example and #Hanoi @Anna now.",
    ],
)
def test_marked_sentence(marked: str) -> None:
    text, spans = unmarked(marked)
    assert found(text) == spans


def test_offsets_are_code_points() -> None:
    text, spans = unmarked("😀 𝔘𝔫𝔡 she met [Zoé Brellik|PERSON] 😀 in [Hanoi|GPE].")
    assert found(text)[-2:] == spans


@pytest.mark.parametrize("word", ["walks", "stopped", "cities", "making", "happily", "don't", "they're", "larger"])
def test_inflected_forms_are_ordinary_words(word: str) -> None:
    assert is_common(word)


@pytest.mark.parametrize("word", ["hanoi", "brellik", "o'neill"])
def test_names_are_no_ordinary_words(word: str) -> None:
    assert not is_common(word)


PIECES = st.sampled_from(
    "The of and & van der al - ' 's ’s , . : “ ” \" ( ) Hanoi New York Dr. President U.S. May Anna Brellik University "
    "Inc. German War 5 10:30 $ % COVID-19 hello to \t \n \u3000 \u00a0 É 東京 🙂 X. II St. @a http://x".split(" ")
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=14).map(" ".join), st.lists(PIECES, max_size=14).map("".join)))
def test_any_text_gives_sorted_disjoint_trimmed_spans(text: str) -> None:
    end = 0
    for mention in tag(text):
        covered = mention.span.of(text)
        assert end <= mention.span.start < mention.span.end <= len(text)
        assert covered == covered.strip()
        assert mention.label in LABELS
        end = mention.span.end


@pytest.mark.parametrize(
    "text",
    ["A" * 99_999, "Al " * 33_333, "Of New York the " * 6_000, "- " * 50_000, "1,1" * 33_333, "“A b” " * 9_999],
)
def test_long_texts_take_linear_time(text: str) -> None:
    began = time.perf_counter()
    tag(text)
    assert time.perf_counter() - began < 5


@pytest.mark.real_data
def test_names_of_universal_ner_pud(shared_data: Path) -> None:
    """Measured by benchmarks/bench_entities.py: span F1 0.85 with types ignored."""
    path = Path(__file__).resolve().parents[4] / "benchmarks" / "bench_entities.py"
    spec = importlib.util.spec_from_file_location("bench_entities", path)
    assert spec is not None and spec.loader is not None
    bench = sys.modules["bench_entities"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    sentences = bench.read_uner(shared_data / "ner" / "UNER_English-PUD" / "en_pud-ud-test.iob2")
    names = [[tuple(m.span) for m in tag(sentence.text) if m.label in bench.NAMES] for sentence in sentences]
    assert len(sentences) == 1000
    assert bench.score(sentences, names).f1 >= 0.83
