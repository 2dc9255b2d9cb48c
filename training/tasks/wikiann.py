"""Reads WikiAnn, or PAN-X (Pan et al. 2017, splits of Rahimi et al. 2019): PER, LOC, ORG in XTREME's 40 languages."""

from __future__ import annotations

from pathlib import Path

from schemas.errors import InputError
from schemas.mrc import TaggingExample
from training.metrics.tags import entities, iob2
from training.tasks.columns import Sentence, joined, sentences, tags_at, words_alone
from training.tasks.files import FileLedger, FileRecords, lang_in, require_lang, without_labels

LANGS = tuple(
    "en af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv "
    "ka kk ko ml mr ms my nl pt ru sw ta te th tl tr ur vi yo zh".split()
)
LABELS = ("LOC", "ORG", "PER")


def read(path: Path, lang: str | None = None) -> FileRecords[TaggingExample]:
    """Reads the authors' `de/test`, where words have the prefix `de:`, or XTREME's `test-de.tsv`, without a prefix.

    XTREME's own test files have only words: such sentences have no tags and the flag `unlabelled`.
    """
    file_sentences = list(sentences(path))
    prefix = _prefix(path, file_sentences)
    named = prefix[:-1] or lang_in(path, r"(?:train|dev|test|extra)-(?P<lang>[a-z-]+)\.tsv")
    lang = require_lang(lang, named or (path.parent.name if path.parent.name in LANGS else None), path)
    examples, ledger, unlabelled = [], FileLedger(), words_alone(file_sentences)
    for sentence in file_sentences:
        tags = [] if unlabelled else tags_at(path, sentence, -1, LABELS)
        ledger.add(lang, len(entities(tags)))
        text, tokens = joined([row[0].removeprefix(prefix) for row in sentence.rows])
        examples.append(TaggingExample(f"{path.name}:{sentence.line}", lang, text, tokens, iob2(tags), "wikiann"))
    return examples, without_labels(examples if unlabelled else ()), ledger


def _prefix(path: Path, file_sentences: list[Sentence]) -> str:
    """Returns the first word's prefix, such as `de:`, if more than half of the words have it; then all must have it."""
    words = [(line, row[0]) for sentence in file_sentences for line, row in enumerate(sentence.rows, sentence.line)]
    prefix = words[0][1].partition(":")[0] + ":" if words else ""
    without = [line for line, word in words if not word.startswith(prefix)]
    if not prefix or 2 * len(without) >= len(words):
        return ""
    if without:
        raise InputError(f"{path}:{without[0]}: expected a word that begins with {prefix} as the others do")
    return prefix
