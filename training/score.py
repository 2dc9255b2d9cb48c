"""`polyspan-train score`: published numbers from gold files and predictions, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, RecordCounts
from training.metrics import aggregates, bootstrap, counting, mlqa, squad
from training.metrics.counting import Counted
from training.metrics.reports import FORMATS, Figure, Report, Row
from training.metrics.signatures import checksum, signature
from training.tasks import squad_json
from training.tasks.catalog import TASKS, Task
from training.tasks.columns import read_tags
from training.tasks.files import known, lang_in, refuse_unlabelled
from training.tasks.records import check_langs, check_paths, task_of
from training.tasks.tags import TAG, Entity, entities
from training.tasks.tsv import read_labels


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How figures are computed and shown, wherever the predictions come from."""

    langs: tuple[str, ...] = ()
    """One for each gold file, where its name does not say it."""
    format: Literal["text", "markdown", "latex", "json"] = "text"
    """Of the report. Markdown and LaTeX are laid out as papers are: a column a language."""
    name: str = "model"
    """What Markdown and LaTeX call the predictions."""
    mlqa_arabic: mlqa.Arabic = "official"
    """MLQA's scorer deletes the Arabic article inside words as well; word_start corrects that."""
    resamples: int = 1_000
    """Of the bootstrap behind the confidence intervals; 0: no intervals."""
    confidence: float = 0.95
    """Of the intervals."""
    seed: int = 1
    """Of the resampling."""


@dataclass(frozen=True)
class Files:
    """Gold files and predictions, which belong together in their order."""

    task: str
    """squad, xquad, mlqa, tydiqa, wikiann, conll, universal_ner, absa, paws_x or xnli."""
    gold: tuple[Path, ...]
    """Files as the task's authors or XTREME publish them; XTREME's label files too."""
    predictions: tuple[Path, ...]
    """One for each gold file: JSON {id: text} for questions; a tag a line (last column) with blank lines between
    sentences; a label a line for pairs."""


@dataclass(frozen=True)
class ScoreConfig(Reporting, Files):  # the fields of the last base are the first
    """What to score. Gold files and predictions belong together in their order."""


def run(config: ScoreConfig) -> str:
    """The report in the format that was asked for. Raises as `report_of` does."""
    return FORMATS[config.format](report_of(config))


def report_of(config: ScoreConfig, unresolved: Sequence[Sequence[Iterable[Entity]] | None] = ()) -> Report:
    """Every figure. `unresolved`: of each gold file's sentences, what a model found before entities that overlap were
    resolved, where it says so; official files cannot hold them. Raises `ConfigError` for what cannot work, and
    `InputError` naming the file and line at fault."""
    task = checked(config)
    check_paths([*config.gold, *config.predictions])
    rows: list[Row] = []
    for index, (gold, predictions) in enumerate(zip(config.gold, config.predictions, strict=True)):
        given = config.langs[index] if config.langs else None
        found = unresolved[index] if unresolved else None
        more = {} if found is None else {"unresolved": found}
        counted = _COUNT[task.kind](config, gold, predictions, given, **more)
        if not counted:
            raise InputError(f"{gold}: holds nothing to score")
        rows += [_row(config, task.row(gold, lang), lang, each, gold, predictions) for lang, each in counted.items()]
    refuse_twice([row.name for row in rows])
    rows.sort(key=lambda row: (row.lang not in task.langs, task.langs.index(row.lang) if row.lang in task.langs else 0))
    averages = _averages(config, rows)
    return Report(config.task, config.name, task.langs, rows, averages, _extras(rows, averages))


def refuse_twice(rows: Sequence[str]) -> None:
    """Raises `ConfigError` if two rows of a table would have the same name."""
    if twice := [name for name in dict.fromkeys(rows) if rows.count(name) > 1]:
        raise ConfigError(f"two gold files are both {twice[0]!r}: score them in commands of their own")


def checked(config: ScoreConfig) -> Task:
    task = task_of(config.task)
    if not config.gold or len(config.gold) != len(config.predictions):
        raise ConfigError(
            f"expected one file of predictions for each gold file, found {len(config.gold)} gold and "
            f"{len(config.predictions)} of predictions"
        )
    check_langs(config.langs, config.gold, "gold files")
    if config.resamples < 0 or not 0 < config.confidence < 1:
        raise ConfigError("expected resamples of 0 or more, and a confidence between 0 and 1")
    return task


# --- one file: what is counted in each language of it ----------------------------------------------------------------


def _questions(config: ScoreConfig, gold: Path, path: Path, lang: str | None) -> dict[str, Counted]:
    predictions = squad_json.load(path)
    if not isinstance(predictions, dict) or not all(isinstance(each, str) for each in predictions.values()):
        raise InputError(f"{path}: expected a JSON object with a text for each question's id, as official scorers do")
    examples, flags, ledger = TASKS[config.task].read(gold, lang)
    refuse_unlabelled(gold, len(flags.get("unlabelled", ())), len(examples))
    if unanswered := [example.id for example in examples if not example.answer_texts]:
        raise InputError(
            f"{gold}: {len(unanswered):,} questions are unanswerable, such as {unanswered[0]}, but the scorer of SQuAD "
            "1.1 compares with answers. Take them out of the file"
        )
    notes = {
        "unknown_ids": len(predictions.keys() - {example.id for example in examples}),
        "duplicate_ids": len(flags.get("duplicate_id", ())),
    }
    found = count_questions(examples, predictions, config.task, config.mlqa_arabic)
    return _noted(found, notes, ledger.counts(examples))


def _sentences(
    config: ScoreConfig,
    gold: Path,
    path: Path,
    lang: str | None,
    unresolved: Sequence[Iterable[Entity]] | None = None,
) -> dict[str, Counted]:
    labels = TASKS[config.task].labels
    examples, flags, ledger = TASKS[config.task].read(gold, lang)
    golds: list[Sequence[str]] = [example.tags for example in examples]
    account = ledger.counts(examples)
    if unlabelled := flags.get("unlabelled"):  # one column: XTREME's label file, or its test file, which has no labels
        if not all(TAG.fullmatch(word) for example in examples for word in example.words):
            refuse_unlabelled(gold, len(unlabelled), len(examples))
        golds = [tags for _, tags in read_tags(gold, labels)]
        found = sum(len(entities(tags)) for tags in golds)
        account = {examples[0].lang: RecordCounts(len(golds), len(golds), {}, found, found)}
    predictions = read_tags(path)
    if len(predictions) != len(golds):
        raise InputError(f"{path}: expected {len(golds)} sentences, as {gold} has; found {len(predictions)}")
    for example, tags, (line, guess) in zip(examples, golds, predictions, strict=True):
        if len(tags) != len(guess):
            raise InputError(
                f"{path}:{line}: expected a sentence of {len(tags)} tags, as {example.id} in {gold} has; "
                f"found {len(guess)}"
            )
    langs = [example.lang for example in examples]
    strange = sum(each.type not in labels for _, tags in predictions for each in entities(tags))
    counted = count_sentences(langs, golds, [tags for _, tags in predictions], unresolved)
    return _noted(counted, {"unknown_labels": strange}, account)


def _pairs(config: ScoreConfig, gold: Path, path: Path, lang: str | None) -> dict[str, Counted]:
    task = TASKS[config.task]
    lines = read_labels(gold)
    if all("\t" not in label for _, label in lines):  # XTREME's label file
        lang = known(lang, lang_in(gold, r"(?:dev|test)-(?P<lang>\w\w)\.tsv"), gold)
        langs, golds = [lang] * len(lines), [_label(task, gold, *line) for line in lines]
        account = {lang: RecordCounts(len(golds), len(golds), {}, len(golds), len(golds))}
    else:
        examples, flags, ledger = task.read(gold, lang)
        refuse_unlabelled(gold, len(flags.get("unlabelled", ())), len(examples))
        account = ledger.counts(examples)
        langs, golds = [example.lang for example in examples], [example.label for example in examples]
    predictions = [_label(task, path, *line) for line in read_labels(path)]
    if len(predictions) != len(golds):
        raise InputError(f"{path}: expected {len(golds)} labels, as {gold} has; found {len(predictions)}")
    return _noted(count_pairs(langs, golds, predictions), {}, account)


def _noted(
    found: Mapping[str, Counted], notes: Mapping[str, int], gold: Mapping[str, RecordCounts]
) -> dict[str, Counted]:
    """What is counted in each language with what there is to note of the whole file, and the gold file's account."""
    return {
        lang: counted._replace(notes={**counted.notes, **notes}, gold=gold[lang]) for lang, counted in found.items()
    }


def _label(task: Task, path: Path, line: int, label: str) -> str:
    if label not in task.labels:
        raise InputError(f"{path}:{line}: expected a label of {', '.join(task.labels)}; found {label!r}")
    return label


_COUNT: dict[str, Callable[..., dict[str, Counted]]] = {"qa": _questions, "tagging": _sentences, "pairs": _pairs}


# --- the same of values in memory: language → what is counted in it ---------------------------------------------------


def count_questions(
    examples: Sequence[MrcExample], predictions: Mapping[str, str], task: str, arabic: mlqa.Arabic = "official"
) -> dict[str, Counted]:
    """`predictions`: id → answer. Raises `ConfigError` if MLQA's scorer does not know a language."""
    return {
        lang: counting.questions(
            [(examples[at].id, examples[at].answer_texts) for at in places], predictions, normalizer(task, lang, arabic)
        )
        for lang, places in _by_lang(example.lang for example in examples).items()
    }


def normalizer(task: str, lang: str, arabic: mlqa.Arabic = "official") -> squad.Normalize:
    """What the task's own scorer does to answers. Raises `ConfigError` if that does not know the language."""
    if task != "mlqa":
        return squad.normalize
    if lang not in mlqa.LANGS:
        raise ConfigError(f"MLQA's scorer knows {', '.join(mlqa.LANGS)}; found {lang!r}")
    return partial(mlqa.normalize, lang=lang, arabic=arabic)


def count_sentences(
    langs: Sequence[str],
    golds: Sequence[Sequence[str]],
    predictions: Sequence[Sequence[str]],
    unresolved: Sequence[Iterable[Entity]] | None = None,
) -> dict[str, Counted]:
    """A list of tags for each sentence; of entities, which may overlap, in `unresolved`."""
    return {
        lang: counting.sentences(
            [golds[at] for at in places],
            [predictions[at] for at in places],
            None if unresolved is None else [unresolved[at] for at in places],
        )
        for lang, places in _by_lang(langs).items()
    }


def count_pairs(langs: Sequence[str], golds: Sequence[str], predictions: Sequence[str]) -> dict[str, Counted]:
    """A label for each pair."""
    return {
        lang: counting.pairs([golds[at] for at in places], [predictions[at] for at in places])
        for lang, places in _by_lang(langs).items()
    }


def _by_lang(langs: Iterable[str]) -> dict[str, list[int]]:
    """Language → places of its examples."""
    found: dict[str, list[int]] = {}
    for at, lang in enumerate(langs):
        found.setdefault(lang, []).append(at)
    return found


# --- rows and averages ------------------------------------------------------------------------------------------------


def _row(config: ScoreConfig, name: str, lang: str, counted: Counted, gold: Path, predictions: Path) -> Row:
    count = len(counted.counts_NK)
    sums_RK = bootstrap.sums(counted.counts_NK, config.resamples, config.seed)
    figures = {
        figure: _figure(config, value, bootstrap.figures(sums_RK, statistic))
        for figure, (value, statistic) in counted.figures.items()
    }
    signed = _signature(config, name, [gold], [predictions], examples=count)
    notes = {note: n for note, n in counted.notes.items() if n}
    return Row(name, lang, count, figures, notes, signed, counted.gold)


def _figure(config: ScoreConfig, value: float, resampled_R: np.ndarray) -> Figure:
    interval = bootstrap.interval(resampled_R, config.confidence) if config.resamples else None
    return Figure(value, interval, resampled_R)


def _signature(
    config: ScoreConfig, what: str, gold: Sequence[Path], predictions: Sequence[Path], **origin: object
) -> str:
    scorers = {"qa": "mlqa1.0" if config.task == "mlqa" else "squad1.1", "tagging": "conll", "pairs": "accuracy"}
    return signature(
        f"{config.task}.{what}",
        scorers[TASKS[config.task].kind],
        arabic=config.mlqa_arabic if config.task == "mlqa" and config.mlqa_arabic != "official" else None,
        **origin,
        gold=checksum(*gold),
        predictions=checksum(*predictions),
        bootstrap=f"{config.resamples}x{config.seed}@{config.confidence:g}" if config.resamples else None,
    )


def _averages(config: ScoreConfig, rows: Sequence[Row]) -> list[Row]:
    """`avg` over the rows; where MLQA has questions in other languages, `XLT` and `G-XLT` (Lewis et al. 2020, 4)."""
    same = [row for row in rows if "-" not in row.name]
    sets = {"avg": rows} if len(same) in (0, len(rows)) else {"XLT": same, "G-XLT": rows}
    return [_average(config, name, chosen) for name, chosen in sets.items() if len(chosen) > 1]


def _average(config: ScoreConfig, name: str, rows: Sequence[Row]) -> Row:
    figures = {}
    for figure in rows[0].figures:
        value = aggregates.mean({row.name: row.figures[figure].value for row in rows})
        resampled_R = np.mean([row.figures[figure].resampled_R for row in rows], axis=0)
        figures[figure] = _figure(config, value, resampled_R)
    what = f"{name}({','.join(row.name for row in rows)})"
    signed = _signature(config, what, config.gold, config.predictions, examples=sum(row.examples for row in rows))
    return Row(name, "", sum(row.examples for row in rows), figures, {}, signed)


def _extras(rows: Sequence[Row], averages: Sequence[Row]) -> dict[str, float]:
    """XTREME's number of the task, and what English is ahead of the mean of the others."""
    found: dict[str, float] = {}
    if averages and "exact_match" in averages[0].figures:
        of = averages[0].figures
        found["xtreme"] = aggregates.xtreme_qa(of["exact_match"].value, of["f1"].value)
    for figure in rows[0].figures:
        by_name = {row.name: row.figures[figure].value for row in rows if row.name == row.lang}
        gap = aggregates.transfer_gap(by_name)
        if gap is not None:
            found[f"transfer_gap_{figure}"] = gap
    return found
