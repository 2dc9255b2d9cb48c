"""Reads translations of labelled records, and finds those of a record.

A file of translations is a dataset folder of schema translations/1, which `polyspan-train translate` writes, or a file
that XTREME or a task's authors publish:

    squad.translate.train.en-de.json, xquad.translate.test.de-en.json   questions, with the ids of the originals
    en-de-translated.tsv, test-de-en-translated.tsv                     pairs, with the original sentences beside them
    de/translated_train.tsv                                             pairs of PAWS-X, with the ids of the originals

Translations are joined by the original texts where the file has them, otherwise by id, and never by order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from schemas import manifest
from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample
from schemas.runtime.checksums import sha256_of
from schemas.shards import read_examples
from schemas.translations import Labels, Translation, kind_of, texts_of
from training.tasks import tsv
from training.tasks.catalog import Task
from training.tasks.files import Record
from training.tasks.records import Source, check_paths, task_of
from training.tasks.xnli import SPELLINGS

SCHEMA = "translations/1"
_PAIR = re.compile(r".*?(?P<source>[a-z]{2,3})-(?P<target>[a-z]{2,3})(?:-translated)?\.(?:json|tsv)(?:\.xz)?")

_Key = tuple[str, str]  # source language, id
_TextsKey = tuple[str, tuple[str, ...]]  # source language, texts


@dataclass(frozen=True)
class Translations:
    """The translations of a run or of an evaluation, by what they translate."""

    by_texts: Mapping[_TextsKey, Sequence[Translation]] = field(default_factory=dict)
    by_id: Mapping[_Key, Sequence[Translation]] = field(default_factory=dict)  # those without their original texts
    sources: tuple[Source, ...] = ()
    unusable: int = 0  # translations that were left out, as a text of theirs is blank or was not translated

    @classmethod
    def between(cls, pairs: Sequence[tuple[Record, Record]], target_lang: str) -> Translations:
        """Returns the translations of records into `target_lang`, which are given as records."""
        by_texts: dict[_TextsKey, list[Translation]] = {}
        for record, translated in pairs:
            langs = LangPair(record.lang, target_lang)
            translation = _translation_of(translated, record.task, langs, unlabelled=True)
            by_texts.setdefault((record.lang, texts_of(record)), []).append(translation)
        return cls(by_texts)

    def of(self, record: Record) -> dict[str, Translation]:
        """Returns target language → translation of the record, in the order of the languages' codes. Of several
        translations into one language, the first that was read is taken."""
        id_ = (record.source_id if isinstance(record, MrcExample) else None) or record.id
        joined = chain(self.by_texts.get((record.lang, texts_of(record)), ()), self.by_id.get((record.lang, id_), ()))
        found: dict[str, Translation] = {}
        for translation in joined:
            found.setdefault(translation.target_lang, translation)
        return dict(sorted(found.items()))

    @property
    def texts(self) -> Iterator[str]:
        """Returns the texts of all translations."""
        for translations in chain(self.by_texts.values(), self.by_id.values()):
            for translation in translations:
                yield from translation.texts

    @property
    def files(self) -> dict[str, str]:
        """Returns position and name of each source → its SHA-256."""
        return {f"{number} {source.path.name}": source.sha256 for number, source in enumerate(self.sources, start=1)}


class LangPair(NamedTuple):
    """The languages of a file of translations."""

    source: str
    target: str


def read_translations(paths: Sequence[Path], task: str, pairs: Sequence[str] = ()) -> Translations:
    """Reads all translations of `paths`. `pairs`: one for each path, such as "en-de", or none if the files say them.

    Raises `ConfigError` for what cannot work, `InputError` and `DatasetError` naming the file that is at fault.
    """
    check_translations(paths, task, pairs)
    by_texts: dict[_TextsKey, list[Translation]] = {}
    by_id: dict[_Key, list[Translation]] = {}
    sources, unusable = [], 0
    for index, path in enumerate(paths):
        read = _read(path, task_of(task), task, pairs[index] if pairs else None)
        usable = [translation for translation in read if all(_is_translated(text) for text in translation.texts)]
        unusable += len(read) - len(usable)
        for translation in usable:
            if translation.source_texts:
                by_texts.setdefault((translation.source_lang, translation.source_texts), []).append(translation)
            else:
                by_id.setdefault((translation.source_lang, translation.id), []).append(translation)
        sources.append(Source(path, sha256_of(path / manifest.FILE_NAME if path.is_dir() else path), len(read)))
    return Translations(by_texts, by_id, tuple(sources), unusable)


def _is_translated(text: str) -> bool:
    """Returns whether the text is neither blank nor PAWS-X's mark of a sentence that was not translated."""
    return bool(text.strip()) and text.strip() != "NS"


def check_translations(paths: Sequence[Path], task: str, pairs: Sequence[str] = ()) -> None:
    """Raises what `read_translations` would raise for missing paths, for folders of other records and for languages
    that are not given. Reads no translation."""
    check_paths(paths, "file or folder of translations")
    if pairs and len(pairs) != len(paths):
        raise ConfigError(f"expected a pair of languages for each of {len(paths)} translations, found {len(pairs)}")
    for index, path in enumerate(paths):
        if not path.is_dir():
            pair_of(path, pairs[index] if pairs else None)
        elif (schema := manifest.load(path).schema) != SCHEMA:
            raise ConfigError(
                f"{path}: has schema {schema}, but translations have {SCHEMA}. Make them with: "
                f"polyspan-train translate MODEL --task {task} --input FILES --to LANG --output FOLDER"
            )


def pair_of(path: Path, given: str | None) -> LangPair:
    """Returns the given pair or, without one, that of the file's name. Raises `ConfigError` if there is neither."""
    match = re.fullmatch(r"(?P<source>[a-z]{2,3})-(?P<target>[a-z]{2,3})", given or "") or _PAIR.fullmatch(path.name)
    if match is None and path.name == "translated_train.tsv":  # PAWS-X: the folder is the language
        return LangPair("en", path.resolve().parent.name)
    if match is None:
        raise ConfigError(
            f"{path}: its name does not say its languages. Give a pair for each file: --translation-langs en-de"
        )
    return LangPair(match["source"], match["target"])


def join_lines(records: Sequence[Record], translations: Translations) -> list[str]:
    """Says how many records have a translation, by language, and how many have none."""
    targets = Counter[str]()
    without = 0
    for record in records:
        found = translations.of(record)
        targets.update(found.keys())
        without += not found
    by_lang = ", ".join(f"{lang} {count:,}" for lang, count in sorted(targets.items())) or "none"
    lines = [f"  translations of {len(records):,} records, by language: {by_lang}"]
    if translations.unusable:
        lines.append(f"  left out, as a text is blank or not translated: {translations.unusable:,} translations")
    if without:
        lines.append(f"  left out, as they have no translation: {without:,} records")
    return lines


def _read(path: Path, task: Task, name: str, pair: str | None) -> list[Translation]:
    if path.is_dir():
        translations: list[Translation] = list(read_examples(path, verify=True))
        if other := next((read for read in translations if read.kind != task.kind), None):
            raise InputError(f"{path}: has translations of kind {other.kind}, but {name} is {task.kind}")
    elif path.suffix == ".tsv" and task.kind == "pairs" and (rows := tsv.translated_rows(path)):
        translations = _with_originals(path, rows, task, name, pair_of(path, pair))
    else:
        translations = _of_records(path, task, name, pair_of(path, pair))
    if not translations:
        raise InputError(f"{path}: holds no translation")
    return translations


def _with_originals(
    path: Path, rows: Sequence[tuple[int, list[str]]], task: Task, name: str, langs: LangPair
) -> list[Translation]:
    """Reads XTREME's translations of pairs: both original sentences, both translated ones, and a label or none."""
    found = []
    for number, (first, second, *translated) in rows:
        label = translated[2].strip() if len(translated) > 2 else ""
        label = SPELLINGS.get(label, label)
        if label and label not in task.labels:
            raise InputError(f"{path}:{number}: expected a label of {', '.join(task.labels)}; found {label!r}")
        found.append(
            Translation(
                id=f"{path.name}:{number}",
                source_lang=langs.source,
                target_lang=langs.target,
                kind="pairs",
                task=name,
                source_texts=(first, second),
                texts=(translated[0], translated[1]),
                labels="known" if label else "unknown",
                label=label or None,
            )
        )
    return found


def _of_records(path: Path, task: Task, name: str, langs: LangPair) -> list[Translation]:
    """Reads a published file of the task as translations, whose ids are those of the originals."""
    records, flags, _ = task.read(path, langs.target)
    unlabelled = set(flags.get("unlabelled", ()))
    if any(record.id.startswith(f"{path.name}:") for record in records):
        raise InputError(
            f"{path}: its records have neither ids nor their original texts, and translations are not joined by order. "
            "Expected XTREME's files, such as en-de-translated.tsv, or a folder of polyspan-train translate"
        )
    return [
        _translation_of(record, name, langs, record.id in unlabelled or _lost_its_answers(record)) for record in records
    ]


def _lost_its_answers(record: Record) -> bool:
    """Returns whether the file places all answers of a question elsewhere, as machine translations do."""
    return isinstance(record, MrcExample) and record.answerable and not record.answers


def _translation_of(record: Record, task: str, langs: LangPair, unlabelled: bool) -> Translation:
    labels: Labels = "unknown" if unlabelled else "known"
    row = record.to_row()
    return Translation.from_row(
        {
            "id": record.id,
            "source_lang": langs.source,
            "target_lang": langs.target,
            "kind": kind_of(record),
            "task": task,
            "source_texts": (),
            "texts": texts_of(record),
            "labels": labels,
            "score": None,
            "answers": [] if unlabelled else row.get("answers", []),
            "tokens": row.get("tokens", []),
            "tags": row.get("tags", []),
            "label": row.get("label") if kind_of(record) == "pairs" else None,
        }
    )
