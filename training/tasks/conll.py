"""Reads CoNLL-2002 and 2003 (Tjong Kim Sang 2002; with De Meulder 2003) and similar files: PER, LOC, ORG, MISC."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import TaggingExample
from training.metrics.tags import entities, iob2
from training.tasks.columns import joined, sentences, tags_at, words_alone
from training.tasks.files import FileLedger, FileRecords, lang_in, require_lang, without_labels

LANGS = ("en", "de", "es", "nl")
LABELS = ("LOC", "MISC", "ORG", "PER")
CODES = {"eng": "en", "deu": "de", "esp": "es", "ned": "nl"}


def read(path: Path, lang: str | None = None) -> FileRecords[TaggingExample]:
    """Reads `eng.train`, `deu.testa`, `esp.testb`, `ned.train`, or copies with names such as `de.test.txt`.

    The first column is the word and the last one the tag. The files of 2003 are IOB1, those of 2002 IOB2. Files that
    are not UTF-8 are read as ISO 8859-1. Sentences of a file with only words have no tags and the flag `unlabelled`.
    """
    named = lang_in(path, r"(?P<lang>eng|deu|esp|ned)\..*", r"(?P<lang>en|de|es|nl)[._-].*", names=CODES)
    lang = require_lang(lang, named, path)
    file_sentences = list(sentences(path, encodings=("utf-8", "iso-8859-1")))
    examples, ledger, unlabelled = [], FileLedger(), words_alone(file_sentences)
    for sentence in file_sentences:
        tags = [] if unlabelled else tags_at(path, sentence, -1, LABELS)
        ledger.add(lang, len(entities(tags)))
        text, tokens = joined([row[0] for row in sentence.rows])
        examples.append(TaggingExample(f"{path.name}:{sentence.line}", lang, text, tokens, iob2(tags), "conll"))
    return examples, without_labels(examples if unlabelled else ()), ledger
