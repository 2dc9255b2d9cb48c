"""`polyspan-train score`: published numbers from gold files and predictions, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import ConfigError, InputError
from training.metrics import aggregates, bootstrap
from training.metrics.counting import Counted, Graded, Metric
from training.metrics.reports import FORMATS, Figure, Report, Row
from training.metrics.signatures import checksum, signature
from training.metrics.tags import Entity
from training.recipes.scoring import Reporting, ScoreConfig
from training.tasks.catalog import TASKS, Task
from training.tasks.records import check_langs, check_paths, task_of

Unresolved = Sequence[Iterable[Entity]]  # likely entities of each sentence, which may overlap


def run(config: ScoreConfig) -> str:
    """Returns the report in the format that was asked for. Raises as `report_of` does."""
    return FORMATS[config.format](report_of(config))


def report_of(config: ScoreConfig, unresolved: Sequence[Unresolved | None] = ()) -> Report:
    """Returns every figure of every gold file, and their averages.

    `unresolved`: for each gold file, the likely entities of its sentences, where the model reports them; official files
    of predictions cannot hold them. Raises `ConfigError` for what cannot work, and `InputError` naming the file and
    line at fault.
    """
    task = checked(config)
    check_paths([*config.gold, *config.predictions])
    rows = [
        _row(config, task.row(gold, lang), lang, counts, gold, predictions)
        for gold, predictions, lang, counts in counted_rows(config, task, unresolved)
    ]
    refuse_twice([row.name for row in rows])
    rows.sort(key=lambda row: (row.lang not in task.langs, task.langs.index(row.lang) if row.lang in task.langs else 0))
    averages = _averages(config, rows)
    return Report(config.task, config.name, task.langs, rows, averages, _extras(rows, averages))


def counted_rows(
    config: ScoreConfig, task: Task, unresolved: Sequence[Unresolved | None] = ()
) -> Iterator[tuple[Path, Path, str, Counted]]:
    """Yields gold file, predictions, language and counts for each language of each gold file. Raises as `report_of`."""
    for index, (gold, predictions) in enumerate(zip(config.gold, config.predictions, strict=True)):
        lang = config.langs[index] if config.langs else None
        counted = _counted_file(config, task, gold, predictions, lang, unresolved[index] if unresolved else None)
        yield from ((gold, predictions, name, counts) for name, counts in counted.items())


def refuse_twice(rows: Sequence[str]) -> None:
    """Raises `ConfigError` if two rows of a table would have the same name."""
    if twice := [name for name in dict.fromkeys(rows) if rows.count(name) > 1]:
        raise ConfigError(f"two gold files are both {twice[0]!r}: score them in commands of their own")


def checked(config: ScoreConfig) -> Task:
    """Returns the task. Raises `ConfigError` for settings that cannot work."""
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


def check_lang(metric: Metric, lang: str) -> None:
    """Raises `ConfigError` if the scorer does not know the language."""
    if metric.langs and lang not in metric.langs:
        raise ConfigError(f"the {metric.name} scorer knows {', '.join(metric.langs)}; found {lang!r}")


# --- counts by language -----------------------------------------------------------------------------------------------


def _counted_file(
    config: ScoreConfig, task: Task, gold: Path, predictions: Path, lang: str | None, unresolved: Unresolved | None
) -> dict[str, Counted]:
    """Returns the counts of each language of a gold file."""
    file = task.shared.read_graded(task.read, task.labels, gold, predictions, lang)
    if not file.langs:
        raise InputError(f"{gold}: holds nothing to score")
    counted = counted_by_lang(task.metric, file.langs, file.records._replace(unresolved=unresolved), config)
    return {
        lang: counts._replace(notes={**counts.notes, **file.notes}, gold=file.gold[lang])
        for lang, counts in counted.items()
    }


def counted_by_lang(metric: Metric, langs: Iterable[str], graded: Graded, reporting: Reporting) -> dict[str, Counted]:
    """Returns the counts of each language, in the order in which languages first occur. `langs`: one for each record.

    Raises `ConfigError` if the scorer does not know a language.
    """
    indices_of: dict[str, list[int]] = {}
    for index, lang in enumerate(langs):
        indices_of.setdefault(lang, []).append(index)
    counted = {}
    for lang, indices in indices_of.items():
        check_lang(metric, lang)
        counted[lang] = metric.count(_chosen(graded, indices), lang, reporting)
    return counted


def _chosen(graded: Graded, indices: Sequence[int]) -> Graded:
    def choose(values: Sequence[Any]) -> list[Any]:
        return [values[index] for index in indices]

    unresolved = None if graded.unresolved is None else choose(graded.unresolved)
    return Graded(choose(graded.golds), choose(graded.predicted), unresolved)


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
    config: ScoreConfig, row: str, gold: Sequence[Path], predictions: Sequence[Path], **origin: object
) -> str:
    metric = TASKS[config.task].metric
    return signature(
        f"{config.task}.{row}",
        metric.name,
        **metric.named_options(config),
        **origin,
        gold=checksum(*gold),
        predictions=checksum(*predictions),
        bootstrap=f"{config.resamples}x{config.seed}@{config.confidence:g}" if config.resamples else None,
    )


def _averages(config: ScoreConfig, rows: Sequence[Row]) -> list[Row]:
    """Returns `avg` over the rows or, where MLQA has questions in other languages than their contexts, `XLT` and
    `G-XLT` (Lewis et al. 2020, section 4)."""
    same = [row for row in rows if "-" not in row.name]
    sets = {"avg": rows} if len(same) in (0, len(rows)) else {"XLT": same, "G-XLT": rows}
    return [_average(config, name, chosen) for name, chosen in sets.items() if len(chosen) > 1]


def _average(config: ScoreConfig, name: str, rows: Sequence[Row]) -> Row:
    figures = {}
    for figure in rows[0].figures:
        value = aggregates.mean({row.name: row.figures[figure].value for row in rows})
        resampled_R = np.mean([row.figures[figure].resampled_R for row in rows], axis=0)
        figures[figure] = _figure(config, value, resampled_R)
    signed_name = f"{name}({','.join(row.name for row in rows)})"
    signed = _signature(
        config, signed_name, config.gold, config.predictions, examples=sum(row.examples for row in rows)
    )
    return Row(name, "", sum(row.examples for row in rows), figures, {}, signed)


def _extras(rows: Sequence[Row], averages: Sequence[Row]) -> dict[str, float]:
    """Returns XTREME's number of the task, and each figure's gap between English and the mean of the others."""
    extras: dict[str, float] = {}
    figures: Mapping[str, Figure] = averages[0].figures if averages else {}
    if {"exact_match", "f1"} <= figures.keys():
        extras["xtreme"] = aggregates.xtreme_qa(figures["exact_match"].value, figures["f1"].value)
    for figure in rows[0].figures:
        by_name = {row.name: row.figures[figure].value for row in rows if row.name == row.lang}
        gap = aggregates.transfer_gap(by_name)
        if gap is not None:
            extras[f"transfer_gap_{figure}"] = gap
    return extras
