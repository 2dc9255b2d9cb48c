"""The scores of a few-shot series as a JSON file, a CSV file, a table and curves."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import InputError
from schemas.runtime.shown_paths import shown_path, shown_paths, shown_text
from training.metrics.reports import main_figures, title
from training.metrics.tables import Table
from training.recipes.few_shot import FewShotConfig, Try, folder_names, models_of, test_task
from training.reports.run_results import in_order, mean_and_sd

Scores = dict[str, dict[str, float]]  # row of the report, such as "de" or "avg" → figure → percent


class Series(NamedTuple):
    """The content of `few_shot.json`."""

    about: dict[str, Any]  # what all runs have in common
    scores: dict[Try, Scores]
    failed: dict[Try, str]
    names: Mapping[str, str] = {}  # model → how files name it: a path that says nothing of the machine

    def written(self, run: Try) -> Try:
        return run._replace(model=self.names.get(run.model, run.model))

    def to_json(self) -> str:
        values = {
            **self.about,
            "scores": [{**self.written(run)._asdict(), "rows": rows} for run, rows in self.scores.items()],
            "failed": [
                {**self.written(run)._asdict(), "error": shown_text(error)} for run, error in self.failed.items()
            ],
        }
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def read_series(path: Path, config: FewShotConfig) -> Series:
    """Reads a `few_shot.json`, without the runs that failed. Raises `InputError` if it is none."""
    names = shown_paths(models_of(config))
    model_of = {name: model for model, name in names.items()}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        models = [shown_path(run["model"]) for run in values["scores"]]  # older releases wrote whole paths
        scores = {
            Try(model_of.get(model, model), run["size"], run["sample"]): run["rows"]
            for model, run in zip(models, values["scores"], strict=True)
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what few-shot writes ({error}). Take another --output") from None
    return Series(values, scores, {}, names)


def rows_and_figures(config: FewShotConfig, series: Series) -> tuple[list[str], list[str]]:
    """Returns the languages as papers order them, followed by the averages; and the figures that papers print."""
    first = next(iter(series.scores.values()))
    averages = [row for row in first if row in ("avg", "XLT", "G-XLT")]
    langs = in_order(test_task(config), [row for row in first if row not in averages])
    return [*langs, *averages], main_figures(first[[*langs, *averages][0]])


def values_of(config: FewShotConfig, series: Series, model: str, size: int, row: str, figure: str) -> list[float]:
    """Returns a figure of all samples of a size that have been run, in percent."""
    runs = (series.scores.get(Try(model, size, sample)) for sample in range(1, config.resamples + 1))
    return [scores[row][figure] for scores in runs if scores]


def table_of(config: FewShotConfig, series: Series) -> Table:
    """Returns CLISM's table 9 with a column for each language: means and standard deviations over the samples."""
    rows, figures = rows_and_figures(config, series)
    names, body = folder_names(config), []
    for size in sorted(config.sizes):
        for model in models_of(config):
            values = [[values_of(config, series, model, size, row, figure) for figure in figures] for row in rows]
            cells = [" / ".join(map(mean_and_sd, cell)) if cell[0] else "–" for cell in values]
            body.append([names[model], f"{size:,}", str(len(values[0][0])), *cells])
    header = f"{test_task(config)}, {' / '.join(map(title, figures))}"
    return Table([header, "examples", "draws", *rows], body)


def curves_of(config: FewShotConfig, series: Series) -> dict[str, dict[str, dict[int, Sequence[float]]]]:
    """Returns the panels of the picture: each main figure's average, or its only row if there is no average."""
    rows, figures = rows_and_figures(config, series)
    row = next((row for row in ("avg", "XLT") if row in rows), rows[0])
    return {
        f"{test_task(config)}, {row}: {title(figure)}": {
            name: {size: values_of(config, series, model, size, row, figure) for size in config.sizes}
            for model, name in folder_names(config).items()
        }
        for figure in figures
    }


def as_csv(series: Series) -> str:
    """Returns a line for each figure of each row of each run."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["model", "size", "sample", "row", "figure", "percent"])
    for run, rows in series.scores.items():
        writer.writerows(
            [*series.written(run), row, figure, value]
            for row, figures in rows.items()
            for figure, value in figures.items()
        )
    return target.getvalue()
