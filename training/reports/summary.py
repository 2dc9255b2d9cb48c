"""What a training command prints at its end: the run's results, and the next commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from training.engine.metrics_log import FIGURES, LOST, duration
from training.inference.json_requests import LINE_FORMATS
from training.recipes.finetuning import FinetuneConfig
from training.recipes.pretraining import PretrainConfig
from training.tasks.catalog import TASKS


def summary(config: PretrainConfig | FinetuneConfig) -> str:
    """Returns the summary of a complete run, which it reads from the run's folder."""
    return _of_finetuning(config) if isinstance(config, FinetuneConfig) else _of_pretraining(config)


def _of_pretraining(config: PretrainConfig) -> str:
    folder = Path(config.output)
    with (folder / "metrics.jsonl").open(encoding="utf-8") as log:
        rows = [json.loads(line) for line in log]
    tenth = max(1, len(rows) // 10)
    first, last = _means(rows[:tenth]), _means(rows[-tenth:])
    lines = [
        f"Trained {config.recipe.name} for {len(rows):,} steps in {duration(sum(row['seconds'] for row in rows))}.",
        "",
        f"  {'':<24}{f'first {tenth} steps':>18}{f'last {tenth} steps':>18}",
        *(f"  {name:<24}{first[name]:>18.4g}{last[name]:>18.4g}" for name in first if name.startswith("loss")),
        *(f"  {label:<24}{first[name]:>18.1%}{last[name]:>18.1%}" for name, label in FIGURES.items() if name in first),
    ]
    for reason, what in LOST.items():
        if number := sum(row.get(f"lost/{reason}", 0) for row in rows):
            lines.append(
                f"  {what + ':':<60}{number:>12,.0f} of {sum(row['examples'] for row in rows):,.0f} examples read"
            )
    lines += [
        "",
        f"The model:   {folder / 'model'}",
        f"Fine-tune:   polyspan-train finetune RECIPE --model {shlex.quote(str(folder / 'model'))} --train FILE …",
        f"In Python:   AutoModel.from_pretrained({str(folder / 'model')!r}), of transformers",
        f"The curves:  tensorboard --logdir {folder}",
        f"Every step:  {folder / 'metrics.jsonl'}",
    ]
    return "\n".join(lines)


def _of_finetuning(config: FinetuneConfig) -> str:
    folder = Path(config.output)
    evaluations = [json.loads(line) for line in _lines(folder / "dev.jsonl")]
    rows = [json.loads(line) for line in _lines(folder / "metrics.jsonl")]
    lines = [f"Fine-tuned {config.recipe.name} for {len(rows):,} steps in {duration(sum(x['seconds'] for x in rows))}."]
    if evaluations:
        best = max(evaluations, key=lambda row: (row["score"], -row["step"]))
        lines += ["", f"Best on the dev files after step {best['step']:,} of {evaluations[-1]['step']:,}:"]
        lines += [
            f"  {name:<32}" + "  ".join(f"{figure} {value:.2f}" for figure, value in of.items())
            for name, of in best["figures"].items()
        ]
    run, task = shlex.quote(str(folder)), config.dev_task or config.recipe.task
    lines += [
        "",
        f"The model:   {folder / 'model'}",
        f"Judge it:    polyspan-train evaluate {run} --task {task} --gold FILE …",
        f"Ask it:      echo {shlex.quote(LINE_FORMATS[TASKS[task].kind].example)} | polyspan-train predict {run}",
        f"Compare:     polyspan-train report {run} … --output FOLDER",
    ]
    return "\n".join(lines)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if all(name in row for row in rows)}
