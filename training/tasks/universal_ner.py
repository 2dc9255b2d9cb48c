"""Reads Universal NER (Mayhew et al. 2024): PER, LOC, ORG on treebanks, of which PUD is parallel."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.mrc import TaggingExample
from training.metrics.tags import entities, iob2
from training.tasks.columns import joined, located, sentences, tags_at, words_alone
from training.tasks.files import FileLedger, FileRecords, lang_in, require_lang, without_labels

LANGS = ("en", "ceb", "da", "de", "hr", "pt", "ru", "sk", "sr", "sv", "tl", "zh")
LABELS = ("LOC", "ORG", "PER")


def read(path: Path, lang: str | None = None) -> FileRecords[TaggingExample]:
    """Reads `en_ewt-ud-test.iob2`: number, word, tag and two columns of the annotators; `# text` is the sentence.

    If the words are not in the text (a treebank splits contractions), the text is the words joined by blanks, with the
    flag `words_not_in_text`. Sentences of a file without tags have the flag `unlabelled`.
    """
    lang = require_lang(lang, lang_in(path, r"(?P<lang>[a-z]{2,3})_.*\.iob2"), path)
    file_sentences = list(sentences(path, comments=True))
    examples, flagged, ledger, unlabelled = [], [], FileLedger(), words_alone(file_sentences, 1)
    for sentence in file_sentences:
        tags = [] if unlabelled else tags_at(path, sentence, 2, LABELS)
        ledger.add(lang, len(entities(tags)))
        words = [row[1] for row in sentence.rows]
        text = sentence.comments.get("text", "")
        tokens = located(words, text)
        id_ = sentence.comments.get("sent_id", f"{path.name}:{sentence.line}")
        if tokens is None:
            text, tokens = joined(words)
            flagged.append(id_)
        examples.append(TaggingExample(id_, lang, text, tokens, iob2(tags), "universal_ner"))
    flags = {"words_not_in_text": flagged} if flagged else {}
    return examples, flags | without_labels(examples if unlabelled else ()), ledger


def row(path: Path, lang: str) -> str:
    """Returns the name of the file's row: its treebank, such as `en_ewt`, because a language may have several."""
    match = re.fullmatch(r"([a-z]{2,3}_[^-]+)-.*", path.name)
    return match[1] if match else lang
