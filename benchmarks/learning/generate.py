"""Text whose truth is known: a small Wikipedia, a parallel corpus of two made-up languages, questions about passages.

Every word is made up, so no model knows any of it. Everything follows from the seeds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
ONSETS, VOWELS = "bdfgklmnprstvz", "aeiou"

SITEINFO = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>enwiki</dbname>
    <base>https://en.wikipedia.org/wiki/Main_Page</base>
    <generator>MediaWiki 1.44.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
    </namespaces>
  </siteinfo>
"""
PAGE = """  <page>
    <title>{title}</title>
    <ns>0</ns>
    <id>{number}</id>
    <revision>
      <id>{number}0</id>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def polyspan_data(python: str, *arguments: str) -> None:
    """Runs the real command under a Python that has what the pipelines need."""
    command = [python, "-m", "pipelines.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}\nIs this the Python of the pipelines? See --pipelines-python.")


def words(random: Random, count: int, syllables: int, taken: set[str], onsets: str = ONSETS) -> list[str]:
    """Returns `count` words that are not in use yet: "tabor", of two syllables."""
    made: list[str] = []
    while len(made) < count:
        word = "".join(random.choice(onsets) + random.choice(VOWELS) for _ in range(syllables)) + random.choice("nlrs")
        if word not in taken:
            taken.add(word)
            made.append(word)
    return made


def names(random: Random, count: int, taken: set[str], onsets: str = ONSETS) -> list[str]:
    """Capitalised, of one word or two."""
    parts = [words(random, 2, 3, taken, onsets) for _ in range(count)]
    return [" ".join(part[: random.choice((1, 2))]).title() for part in parts]


# --- a Wikipedia ----------------------------------------------------------------------------------


class Wiki(NamedTuple):
    definitions: dict[str, str]  # title → wikitext
    pages: list[list[str]]  # each of pieces: plain words, and titles, which are links

    def dump(self) -> str:
        """Every page, in the form in which Wikimedia exports them."""
        linked = [[f"[[{piece}]]" if piece in self.definitions else piece for piece in page] for page in self.pages]
        return self._export([" ".join(page) for page in linked])

    def dump_of_middles(self, words_around: int) -> str:
        """The same mentions, each with `words_around` words as a page of its own, half of them before it."""
        half, middles = words_around // 2, []
        for page in self.pages:
            for at, piece in enumerate(page):
                if piece in self.definitions:
                    before, after = (" ".join(part).split() for part in (page[:at], page[at + 1 :]))
                    middles.append(" ".join([*before[-half:], f"[[{piece}]]", *after[: words_around - half]]))
        return self._export(middles)

    def _export(self, texts: Sequence[str]) -> str:
        articles = [*self.definitions.items(), *((f"Page {at}", text) for at, text in enumerate(texts))]
        pages = [
            PAGE.format(title=escape(title), number=number, text=escape(text))
            for number, (title, text) in enumerate(articles, 1)
        ]
        return "".join([SITEINFO, *pages, "</mediawiki>\n"])


def wikipedia(seed: int, pages_seed: int, entities: int, mentions: int, words_around: int, links: int = 20) -> Wiki:
    """`seed` makes the entities, `pages_seed` the pages, which mention each entity that many times, `links` on a page.

    A definition is the entity's name and seven words. One of these is in no other definition: only reading
    about an entity shows which name goes with its word. Mentions on a page are some six words apart, with
    `words_around` words before the first and after the last, so that every window is full.
    """
    random, taken = Random(seed), set[str]()
    common, own = words(random, 60, 2, taken), words(random, entities, 3, taken)
    definitions = {}
    for title, word in zip(names(random, entities, taken), own, strict=True):
        said = random.choices(common, k=6)
        said.insert(random.randrange(5), word)
        definitions[title] = f"'''{title}''' {' '.join(said)}."
    random = Random(pages_seed)
    queue = [title for _ in range(mentions) for title in random.sample(list(definitions), entities)]
    pages = []
    for start in range(0, len(queue), links):
        page = random.choices(common, k=words_around)
        for title in queue[start : start + links]:
            page += [title, *random.choices(common, k=random.randrange(3, 10))]
        pages.append(page + random.choices(common, k=words_around))
    return Wiki(definitions, pages)


# --- two languages --------------------------------------------------------------------------------


class Clause(NamedTuple):
    name: int
    word: int  # 0 or 1: which of the two words for the noun that the name keeps company with


class Scene(NamedTuple):
    """What a sentence says: an opening, and clauses without a common noun."""

    opening: int
    clauses: list[Clause]


class Language(NamedTuple):
    openings: list[str]
    names: list[str]
    nouns: list[tuple[str, str]]  # two words that mean the same; name n keeps company with noun n % len(nouns)
    name_first: bool  # in a clause

    def words_of(self, name: int) -> tuple[str, str]:
        return self.nouns[name % len(self.nouns)]

    def sentence(self, scene: Scene) -> str:
        """An opening, which keeps names off the capital that begins a sentence, and clauses: "tabor Zavuvin niban"."""
        clauses = [(self.names[name], self.words_of(name)[word]) for name, word in scene.clauses]
        return " ".join([self.openings[scene.opening], *(" ".join(c if self.name_first else c[::-1]) for c in clauses)])


def languages(seed: int, nouns: int = 24, names_each: int = 2, openings: int = 12) -> tuple[Language, Language]:
    """Makes a source and a target with their own words and orders. Half of the names are alike, as names are."""
    random, taken = Random(seed), set[str]()

    def language(onsets: str, name_first: bool) -> Language:
        pairs = [(one, other) for one, other in (words(random, 2, 2, taken, onsets) for _ in range(nouns))]
        proper = names(random, nouns * names_each, taken, onsets)
        return Language(words(random, openings, 2, taken, onsets), proper, pairs, name_first)

    source, target = language(ONSETS, True), language("chjkmnpqtwxy", False)
    alike = [mine if random.random() < 0.5 else other for mine, other in zip(source.names, target.names, strict=True)]
    return source, target._replace(names=alike)


def scenes(language: Language, count: int, clauses: int, seed: int) -> Iterator[Scene]:
    random, nouns = Random(seed), len(language.nouns)
    for _ in range(count):
        said = [noun + random.randrange(0, len(language.names), nouns) for noun in random.sample(range(nouns), clauses)]
        yield Scene(random.randrange(len(language.openings)), [Clause(name, random.randrange(2)) for name in said])


def parallel(source: Language, target: Language, count: int, clauses: int, seed: int) -> list[tuple[str, str]]:
    """Sentences and their translations, which order the clauses anew and take either word for each noun."""
    random, pairs = Random(f"translation {seed}"), []
    for scene in scenes(source, count, clauses, seed):
        anew = [clause._replace(word=random.randrange(2)) for clause in random.sample(scene.clauses, clauses)]
        pairs.append((source.sentence(scene), target.sentence(scene._replace(clauses=anew))))
    return pairs


def questions(language: Language, count: int, clauses: int, seed: int) -> Iterator[dict[str, Any]]:
    """Paragraphs of SQuAD's format: a passage, and a noun asked of it: whose is it?

    The passage has the noun's other word, so finding the answer, a name that occurs there once, takes knowledge.
    """
    random = Random(f"question {seed}")
    for number, scene in enumerate(scenes(language, count, clauses, seed)):
        asked = random.choice(scene.clauses)
        passage, name = language.sentence(scene), language.names[asked.name]
        answer = {"text": name, "answer_start": passage.index(name)}
        question = language.words_of(asked.name)[1 - asked.word]
        yield {
            "context": passage,
            "qas": [{"id": f"question {number}", "question": question, "answers": [answer]}],
        }


def squad_file(path: Path, paragraphs: Iterable[dict[str, Any]]) -> Path:
    document = {"version": "1.1", "data": [{"title": "made up", "paragraphs": list(paragraphs)}]}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
