"""CoNLL-2002 and 2003 (Tjong Kim Sang 2002; with De Meulder 2003): PER, LOC, ORG, MISC; and whatever has its layout."""

from __future__ import annotations

from pathlib import Path

from schemas.mrc import TaggingExample
from training.tasks.columns import joined, sentences, tags_at
from training.tasks.files import Flags, known, lang_in
from training.tasks.tags import iob2

LANGS = ("en", "de", "es", "nl")
LABELS = ("LOC", "MISC", "ORG", "PER")
CODES = {"eng": "en", "deu": "de", "esp": "es", "ned": "nl"}


def read(path: Path, lang: str | None = None) -> tuple[list[TaggingExample], Flags]:
    """`eng.train`, `deu.testa`, `esp.testb`, `ned.train`, or `de.test.txt` in copies of them.

    The word is the first column and the tag the last, whatever stands between; 2003's files are IOB1, 2002's IOB2, and
    the originals ISO 8859-1 where they are no UTF-8. `-DOCSTART-` lines are no sentences.
    """
    named = lang_in(path, r"(?P<lang>eng|deu|esp|ned)\..*", r"(?P<lang>en|de|es|nl)[._-].*", names=CODES)
    lang = known(lang, named, path)
    examples = []
    for sentence in sentences(path, encodings=("utf-8", "iso-8859-1")):
        if sentence.rows[0][0] == "-DOCSTART-":
            continue
        text, tokens = joined([row[0] for row in sentence.rows])
        tags = iob2(tags_at(path, sentence, -1))
        examples.append(TaggingExample(f"{path.name}:{sentence.line}", lang, text, tokens, tags, "conll"))
    return examples, {}
