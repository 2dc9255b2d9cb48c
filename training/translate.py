"""`polyspan-train translate`: translates labelled records and carries their labels over.

records, or translations to translate back
  → items: a record and a target language
  → distinct texts → distinct sentences → chunks of sentences → translations (kept in work/, so that a run can go on)
  → an aligner of each language pair, trained on these sentences
  → translated records with known, projected or unknown labels → the dataset

Everything is written beside the output folder, in `.OUTPUT.new`, which takes its place when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas import translations
from schemas.errors import ConfigError, DatasetError
from schemas.languages import LanguagePair
from schemas.manifest import FILE_NAME, InputFile, Manifest
from schemas.mrc import MrcExample, PairExample, TaggingExample
from schemas.rejects import MAX_EXCERPT_CHARS, Reject
from schemas.runtime.output_folder import (
    LOCK,
    NEW,
    check_output,
    delete_files,
    differences,
    files_in,
    locked,
    needs_tidying,
    recover,
    replacement,
    tidy,
)
from schemas.runtime.shown_paths import shown_path
from schemas.shards import read_examples
from schemas.spans import CharSpan
from schemas.translations import Translation, TranslationCounts, kind_of, texts_of
from training.checks.translate import given_codes, langs_of
from training.data.dataset_writer import check_free, fill_folder, holds_dataset
from training.inference.json_requests import words_of
from training.inference.projection import (
    UNKNOWN,
    Labels,
    SentenceAligner,
    SentenceWords,
    WordsOfText,
    load_prior,
    projected_answers,
    projected_tags,
    train_aligner,
)
from training.inference.sentences import fitting_pieces
from training.models.files import local_folder, read_json
from training.recipes.translate import TranslateConfig
from training.runtime import atomic_write
from training.runtime.outputs import digest_of, translation_files
from training.tasks.files import Record
from training.tasks.records import read_records

if TYPE_CHECKING:
    from training.inference.translator import Translator

SCHEMA = "translations/1"
SENTENCES_PER_CHUNK = 1_024  # that are translated before they are stored
RECORDS_AT_ONCE = 2_048  # whose words and links are in memory together
REJECTS_PER_REASON = 100  # the most that are stored for each language pair and reason; all are counted
WORK = "work"
_WITHOUT_BLANKS = ("ja", "zh")  # no blank between sentences
_LIBRARIES = ("numpy", "sentencepiece", "tokenizers", "torch", "transformers")


def run(config: TranslateConfig) -> str:
    """Writes the folder and returns the text to print. Raises `ConfigError` for what cannot work, and `InputError`
    naming the file or model at fault."""
    recover(config.output, translation_files)
    check_output(config.output, translation_files, {"--input": config.input, "MODEL": [config.model]})
    about = about_run(config)
    if is_done(config.output, about):
        shown = shlex.quote(str(config.output))
        return f"{config.output}: complete, nothing to do. Look at it: polyspan-inspect show {shown}\n"
    check_free(config.output, config.overwrite)
    items = read_items(config)
    with locked(config.output):
        return translate(config, about, items)


# --- what decides the dataset -----------------------------------------------------------------------------------------


class About(NamedTuple):
    """What the manifest and the mark of unfinished work say of a run."""

    config: dict[str, Any]
    inputs: list[InputFile]
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "inputs": {f"{at} {file.path}": file.sha256 for at, file in enumerate(self.inputs)},
            "versions": self.versions,
        }


def about_run(config: TranslateConfig) -> About:
    """Returns what decides the translations. Device and batches change only the rounding, so that a run that ran out of
    memory can go on with smaller ones."""
    settings = {
        "task": config.task,
        "model": shown_path(config.model),
        "model_sha256": digest_of_model(local_folder(config.model)),
        "to": list(config.to),
        "from": config.source_lang,
        "back": config.back,
        "codes": sorted(config.codes),
        "beams": config.beams,
        "precision": config.computing.precision,
        "aligner": shown_path(config.aligner),
        "aligner_sha256": [digest_of(path) for path in aligner_paths(config)],
    }
    inputs = []
    for path in config.input:
        file = path / FILE_NAME if path.is_dir() else path
        name = f"{path.name}/{FILE_NAME}" if path.is_dir() else path.name
        inputs.append(InputFile(config.task or "translations", name, file.stat().st_size, digest_of(file)))
    return About(settings, inputs, {name: version(name) for name in _LIBRARIES})


def digest_of_model(folder: Path) -> str:
    """Returns a SHA-256 of all files of a model that decide its translations."""
    suffixes = (".json", ".safetensors", ".model", ".spm", ".txt")
    files = sorted(path for path in folder.iterdir() if path.suffix in suffixes)
    return hashlib.sha256("".join(f"{path.name} {digest_of(path)}\n" for path in files).encode()).hexdigest()


def aligner_paths(config: TranslateConfig) -> list[Path]:
    """Returns the files that --aligner names: those of all language pairs if it has {pair}."""
    pattern = Path(config.aligner)
    if "{pair}" not in config.aligner:
        return [pattern] if config.aligner else []
    if "{pair}" not in pattern.name:
        raise ConfigError(f"--aligner {config.aligner}: expected {{pair}} in the file's name")
    return sorted(pattern.parent.glob(pattern.name.replace("{pair}", "*-*")))


def is_done(output: Path, about: About) -> bool:
    """Returns whether the folder holds the complete dataset of this command. Completes what a killed process began."""
    if not holds_dataset(output, about.config, about.inputs, about.versions):
        return False
    if needs_tidying(output):
        with locked(output):
            tidy(output, translation_files)
    return True


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """A record that is to be translated into a language."""

    record: Record
    target_lang: str
    has_labels: bool
    score: float  # of the record's labels: below 1 if they are projected themselves
    file: str
    place: int  # of the record in the file, from 1
    id: str  # unique for each language pair: the second record of id 7 is 7#2

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.record.lang, self.target_lang)

    @property
    def texts(self) -> list[tuple[LanguagePair, str]]:
        """The texts with the languages that each is translated between. MLQA has questions in other languages."""
        texts = texts_of(self.record)
        langs = [self.record.lang] * len(texts)
        if isinstance(self.record, MrcExample):
            langs[0] = self.record.query_lang or self.record.lang
        return [(LanguagePair(lang, self.target_lang), text) for lang, text in zip(langs, texts, strict=True)]


def read_items(config: TranslateConfig) -> list[Item]:
    """Reads the records and says into which language each is translated, one target language after the other."""
    items = _translated_back(config) if config.back else _labelled_records(config)
    times: Counter[tuple[LanguagePair, str]] = Counter()
    unique = []
    for item in items:
        times[item.pair, item.record.id] += 1
        number = times[item.pair, item.record.id]
        unique.append(replace(item, id=f"{item.id}#{number}") if number > 1 else item)
    if not unique:
        raise ConfigError("no record to translate: --from and --to leave none of the translations")
    return unique


def _labelled_records(config: TranslateConfig) -> list[Item]:
    read = read_records(config.input, config.task, langs_of(config))
    placed = [(source.path.name, place) for source in read.sources for place in range(1, source.records + 1)]
    items = []
    for target in config.to:
        for record, (file, place) in zip(read.records, placed, strict=True):
            if record.lang == target:
                raise ConfigError(f"--to {target}: {file} is in this language already. Leave the file out")
            labelled = is_labelled(record, bool(read.flags["unlabelled"]))
            items.append(Item(record, target, labelled, 1.0, file, place, record.id))
    return items


def is_labelled(record: Record, some_unlabelled: bool) -> bool:
    """Returns whether the labels of a record are known. If some records of its files are unlabelled, a question without
    an answer may be one of them; otherwise it is unanswerable."""
    if isinstance(record, MrcExample):
        return bool(record.answers) or not (record.answer_texts or some_unlabelled)
    return bool(record.tags) if isinstance(record, TaggingExample) else record.label is not None


def _translated_back(config: TranslateConfig) -> list[Item]:
    items = []
    for folder in config.input:
        for place, example in enumerate(read_examples(folder, verify=True), 1):
            wanted = config.source_lang in ("", example.target_lang)
            if wanted and (not config.to or example.source_lang in config.to):
                score = 1.0 if example.score is None else example.score
                known = example.labels != "unknown"
                items.append(Item(example.record(), example.source_lang, known, score, folder.name, place, example.id))
    return items


# --- sentences --------------------------------------------------------------------------------------------------------


class TranslatedText(NamedTuple):
    """A translation, and where the sentences of both texts are. Sentence i translates sentence i."""

    text: str
    source: list[CharSpan]
    target: list[CharSpan]


@dataclass
class Memory:
    """The texts of a run, their sentences, and the translations of these."""

    pieces: dict[tuple[LanguagePair, str], list[CharSpan] | None] = field(default_factory=dict)  # None: too long
    found: dict[LanguagePair, dict[str, str | None]] = field(default_factory=dict)  # None: unfinished

    def text_or_problem(self, pair: LanguagePair, text: str) -> TranslatedText | str:
        """Returns the translation of a text, or the reason why it has none."""
        spans = self.pieces[pair, text]
        if spans is None:
            return "too_long"
        parts = [span.of(text) if pair.source == pair.target else self.found[pair][span.of(text)] for span in spans]
        if any(part is None for part in parts):
            return "unfinished"
        if not all(parts):
            return "empty_text"
        return _joined_or_problem(text, spans, list(filter(None, parts)), pair.target)


def _joined_or_problem(text: str, spans: Sequence[CharSpan], parts: Sequence[str], lang: str) -> TranslatedText | str:
    """Joins translated sentences: line breaks stay, and a blank or, in Chinese and Japanese, nothing is between others.
    A text without a sentence is `empty_text`."""
    joined, target = "", []
    for at, (span, part) in enumerate(zip(spans, parts, strict=True)):
        gap = text[spans[at - 1].end : span.start] if at else ""
        if at:
            joined += gap if "\n" in gap else "" if lang in _WITHOUT_BLANKS else " "
        target.append(CharSpan(len(joined), len(joined) + len(part)))
        joined += part
    return TranslatedText(joined, list(spans), target) if joined.strip() else "empty_text"


def plan(items: Iterable[Item], translator: Translator) -> Memory:
    """Cuts the distinct texts into sentences that the model can read. Raises `ConfigError` for languages that the model
    does not translate between."""
    texts: dict[LanguagePair, dict[str, None]] = {}
    for item in items:
        for pair, text in item.texts:
            texts.setdefault(pair, {})[text] = None
    memory = Memory()
    for pair in texts:
        if pair.source != pair.target:
            translator.check(pair.source, pair.target)
    for pair, distinct in texts.items():
        if pair.source == pair.target:
            memory.pieces |= {(pair, text): [CharSpan(0, len(text))] for text in distinct}
            continue
        count = translator.count_tokens(pair.source, pair.target)
        pieces = fitting_pieces(list(distinct), count, translator.most_tokens)
        memory.pieces |= {(pair, text): spans for text, spans in zip(distinct, pieces, strict=True)}
        found = memory.found.setdefault(pair, {})
        for text, spans in zip(distinct, pieces, strict=True):
            found.update({span.of(text): None for span in spans or ()})
    return memory


def fill_memory(memory: Memory, translator: Translator, work: Path) -> None:
    """Translates all sentences. Chunks that are finished already are read from the work folder."""
    from training.inference.translator import SentenceProgress

    for pair, found in memory.found.items():
        sentences = list(found)
        chunks = [sentences[at : at + SENTENCES_PER_CHUNK] for at in range(0, len(sentences), SENTENCES_PER_CHUNK)]
        paths = [work / f"{pair}.{number:05}.json" for number in range(len(chunks))]
        done = [_read_chunk(path, chunk) for path, chunk in zip(paths, chunks, strict=True)]
        finished = sum(len(chunk) for chunk, read in zip(chunks, done, strict=True) if read)
        with SentenceProgress(str(pair), len(sentences), finished) as progress:
            for path, chunk, read in zip(paths, chunks, done, strict=True):
                if read is None:
                    read = translator.translate(chunk, *pair, partial(_add, progress, finished))
                    atomic_write.text(path, json.dumps({"sentences": _digest(chunk), "translations": read}))
                    finished += len(chunk)
                found.update(zip(chunk, read, strict=True))


def _add(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _read_chunk(path: Path, sentences: Sequence[str]) -> list[str | None] | None:
    """Reads a chunk's translations; None if there are none, or if they are those of other sentences."""
    if not path.is_file():
        return None
    chunk = read_json(path)
    fits = chunk.get("sentences") == _digest(sentences) and len(chunk.get("translations", ())) == len(sentences)
    return list(chunk["translations"]) if fits else None


def _digest(sentences: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(sentences).encode()).hexdigest()


# --- labels -----------------------------------------------------------------------------------------------------------


def needs_projection(item: Item) -> bool:
    """Returns whether the record has answers or entities."""
    if not item.has_labels or isinstance(item.record, PairExample):
        return False
    if isinstance(item.record, MrcExample):
        return bool(item.record.answers)
    return any(tag != "O" for tag in item.record.tags)


def sentence_words(record: Record, text: str, translated: TranslatedText) -> WordsOfText:
    """Returns the words of all sentences. Those of a sentence to tag are the record's own."""
    target = [_words_in(translated.text, span) for span in translated.target]
    if not isinstance(record, TaggingExample):
        return WordsOfText([_words_in(text, span) for span in translated.source], target)
    source: list[list[CharSpan]] = [[] for _ in translated.source]
    at = 0
    for token in record.tokens:
        while at + 1 < len(source) and token.start >= translated.source[at + 1].start:
            at += 1
        source[at].append(token)
    return WordsOfText(source, target)


def _words_in(text: str, span: CharSpan) -> list[CharSpan]:
    return [CharSpan(span.start + start, span.start + end) for start, end in words_of(span.of(text))]


def train_aligners(items: Sequence[Item], memory: Memory, aligner: str) -> dict[LanguagePair, SentenceAligner]:
    """Trains an aligner for each language pair that has labels to project, on all sentences of this pair."""
    aligners = {}
    for pair in dict.fromkeys(item.pair for item in items if needs_projection(item)):
        print(f"{pair}: training the word aligner", file=sys.stderr)
        prior = load_prior(aligner, pair) if aligner else None
        aligners[pair] = train_aligner(_training_sentences(items, memory, pair), prior)
    return aligners


def _training_sentences(items: Sequence[Item], memory: Memory, pair: LanguagePair) -> Iterator[SentenceWords]:
    seen = set()
    for item in items:
        for text_pair, text in item.texts:
            if text_pair != pair or (text in seen and not isinstance(item.record, TaggingExample)):
                continue
            seen.add(text)
            translated = memory.text_or_problem(pair, text)
            if isinstance(translated, TranslatedText):
                yield from sentence_words(item.record, text, translated).sentences(text, translated.text)


def labelled(
    items: Sequence[Item], texts: Sequence[Sequence[TranslatedText]], aligners: Mapping[LanguagePair, SentenceAligner]
) -> list[tuple[Labels, tuple[CharSpan, ...]]]:
    """Returns the labels of each translated item and, of a sentence to tag, its words."""
    words = [
        sentence_words(item.record, item.texts[-1][1], found[-1]) for item, found in zip(items, texts, strict=True)
    ]
    to_align: dict[LanguagePair, list[SentenceWords]] = {pair: [] for pair in aligners}
    for item, each, found in zip(items, words, texts, strict=True):
        if needs_projection(item):
            to_align[item.pair] += each.sentences(item.texts[-1][1], found[-1].text)
    links = {pair: iter(aligners[pair].links(sentences)) for pair, sentences in to_align.items()}
    result = []
    for item, each in zip(items, words, strict=True):
        labels = UNKNOWN
        if needs_projection(item):
            all_links = each.links(list(islice(links[item.pair], len(each.source))))
            labels = _projected(item, each, all_links)
        elif item.has_labels:
            labels = _unchanged(item.record, each)
        tokens = tuple(each.target_words) if isinstance(item.record, TaggingExample) else ()
        result.append((labels, tokens))
    return result


def _projected(item: Item, words: WordsOfText, links: Sequence[Any]) -> Labels:
    if isinstance(item.record, MrcExample):
        labels = projected_answers(item.record, words, links)
    else:
        labels = projected_tags(item.record, words, links)  # type: ignore[arg-type]
    return labels if labels.score is None else labels._replace(score=min(labels.score, item.score))


def _unchanged(record: Record, words: WordsOfText) -> Labels:
    """Returns labels that need no projection: of a pair, a question without an answer or a sentence without an
    entity."""
    if isinstance(record, PairExample):
        return Labels("known", label=record.label)
    tags = ("O",) * len(words.target_words) if isinstance(record, TaggingExample) else ()
    return Labels("known", tags=tags)


# --- the dataset ------------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """Counts what became of the records, and keeps a sample of the rejects."""

    counts: dict[str, TranslationCounts] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    stored: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, pair: LanguagePair, counts: TranslationCounts) -> None:
        self.counts[str(pair)] = self.counts.get(str(pair), TranslationCounts()) + counts

    def reject(self, item: Item, reason: str, excerpt: str) -> None:
        self.add(item.pair, TranslationCounts(1, 0, {reason: 1}))
        self.stored[str(item.pair), reason] += 1
        if self.stored[str(item.pair), reason] <= REJECTS_PER_REASON:
            excerpt = excerpt[:MAX_EXCERPT_CHARS]
            self.rejects.append(Reject(reason, "record", item.id, str(item.pair), item.file, item.place, excerpt))


def examples(
    items: Sequence[Item], memory: Memory, aligners: Mapping[LanguagePair, SentenceAligner], ledger: Ledger
) -> Iterator[Translation]:
    """Yields the translations in the order of the items, and counts all items."""
    for first in range(0, len(items), RECORDS_AT_ONCE):
        kept, texts = [], []
        for item in items[first : first + RECORDS_AT_ONCE]:
            found = [memory.text_or_problem(pair, text) for pair, text in item.texts]
            if reasons := [each for each in found if isinstance(each, str)]:
                ledger.reject(item, reasons[0], " ||| ".join(texts_of(item.record)))
            else:
                kept.append(item)
                texts.append([each for each in found if isinstance(each, TranslatedText)])
        for item, found_texts, (labels, tokens) in zip(kept, texts, labelled(kept, texts, aligners), strict=True):
            example = translation_of(item, [each.text for each in found_texts], labels, tokens)
            if problems := translations.problems(example):
                ledger.reject(item, "breaks_contract", f"{'; '.join(problems)}: {' ||| '.join(example.texts)}")
                continue
            status = {labels.labels: 1}
            ledger.add(item.pair, TranslationCounts(1, 1, {}, **status))
            yield example


def translation_of(item: Item, texts: Sequence[str], labels: Labels, tokens: tuple[CharSpan, ...]) -> Translation:
    return Translation(
        id=item.id,
        source_lang=item.record.lang,
        target_lang=item.target_lang,
        kind=kind_of(item.record),
        task=item.record.task,
        source_texts=texts_of(item.record),
        texts=tuple(texts),
        tokens=tokens,
        **labels._asdict(),
    )


def translate(config: TranslateConfig, about: About, items: Sequence[Item]) -> str:
    """Translates the items and writes the dataset. The caller holds the output folder's lock."""
    from training.inference.predictor import device_of, precision_of
    from training.inference.translator import load_translator

    device, codes = device_of(config.computing), given_codes(config)
    precision = precision_of(config.computing, device)
    translator = load_translator(config.model, codes, device, precision, config.beams, config.computing.batch_tokens)
    memory = plan(items, translator)
    with replacement(config.output, translation_files) as new:
        begin_work(new, about, config.overwrite)
        fill_memory(memory, translator, new / WORK)
        ledger = Ledger()
        rows = examples(items, memory, train_aligners(items, memory, config.aligner), ledger)
        index = fill_folder(
            new,
            SCHEMA,
            rows,
            ledger.counts,
            rejects=ledger.rejects,
            config=about.config,
            inputs=about.inputs,
            versions=about.versions,
        )
        delete_files(new, [name for name in files_in(new) if name.startswith(f"{WORK}/")])
    return report(config, index)


def begin_work(folder: Path, about: About, overwrite: bool) -> None:
    """Prepares the folder for a new run or one that goes on: of what is in it, only finished sentences are kept. Raises
    `ConfigError` if they belong to another command, unless `overwrite`."""
    mark = folder / WORK / "translate.json"
    names = [name for name in files_in(folder) if name not in (NEW, LOCK)]
    now = about.to_json()
    try:
        before = read_json(mark) if mark.is_file() else now
    except DatasetError:
        before = {}
    if before != now:
        if not overwrite:
            changed = "; ".join(f"{name}: {words}" for name, words in differences(before, now))
            raise ConfigError(
                f"{folder} holds the work of a command that was stopped and had other settings ({changed}). Repeat "
                "that command to go on with it, choose another --output, or begin anew with: --overwrite"
            )
        delete_files(folder, names)
    delete_files(folder, [name for name in names if not name.startswith(f"{WORK}/")])
    atomic_write.text(mark, json.dumps(now, indent=2) + "\n")


def report(config: TranslateConfig, index: Manifest) -> str:
    """Returns the text that the command prints."""
    lines = [f"{config.output}: {index.totals.examples:,} translations ({index.schema})", ""]
    for pair, counts in sorted(index.counts.items()):
        assert isinstance(counts, TranslationCounts)
        lines.append(
            f"  {pair:<8}{counts.examples:>10,} translations: labels known {counts.known:,}, "
            f"projected {counts.projected:,}, unknown {counts.unknown:,}"
        )
    lines += ["", *(f"{pair}: {line}" for pair, counts in sorted(index.counts.items()) for line in counts.accounts())]
    lines += ["", f"Look at it:  polyspan-inspect show {config.output}"]
    if any(reasons for counts in index.counts.values() for reasons in counts.rejects().values()):
        lines.append(f"Left out:    polyspan-inspect show {config.output} --rejects")
    return "".join(f"{line}\n" for line in lines)
