"""A run's folder: `run.json` says what the run is, so that its command, repeated, goes on with it, and no other does.

run.json          recipe, data, model, versions, commit: written first
checkpoints/      training/checkpoint.py
metrics.jsonl, tensorboard/   training/logbook.py
model/            training/models/folder.py: written last
Fine-tuning has besides: dev.jsonl, training/selection.py; best/ until the end, when the best weights become model/ and
the last ones, if they are others, last/; baseline/ and candidates/ of two-stage training; results/ of evaluations.
Processes on several machines need a file system that all of them see.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schemas import manifest
from schemas.paths import shown_path
from schemas.provenance import commit as commit
from training import whole
from training.errors import ConfigError
from training.recipes import ClismObjective, PretrainConfig, WaeObjective

FORMAT_VERSION = 1
FILE_NAME = "run.json"
_UNFINISHED = f".{FILE_NAME}.unfinished"
# What decides a run's result; what else differs is told, and no hindrance.
DECIDING = ("recipe", "data", "weights", "model", "baseline", "selection")


def check_config(config: PretrainConfig) -> str:
    """The schema of the data. Raises `ConfigError` or `DatasetError` for what cannot work, before anything heavy."""
    if not config.data:
        raise ConfigError("no data: name the dataset folders with --data FOLDER …; polyspan-data makes them")
    check_output(config.output)
    recipe = config.recipe
    expected, maker = (
        ("clism/1", "polyspan-data clism")
        if isinstance(recipe.objective, ClismObjective)
        else ("anchor_mrc/1", "polyspan-data anchor-mrc")
    )
    for folder in config.data:
        found = manifest.load(folder).schema
        if found != expected:
            raise ConfigError(
                f"{folder}: has schema {found}, but recipe {recipe.name} reads {expected}, which `{maker}` makes. "
                f"For {found} there are: {', '.join(RECIPES_FOR.get(found, ['no recipes']))}"
            )
    check_numbers(recipe, {"steps": 1, "batch_size": 1})
    if recipe.warmup_steps > recipe.steps:
        raise ConfigError(
            f"{recipe.warmup_steps} warm-up steps do not fit into {recipe.steps} steps. Lower --warmup-steps"
        )
    check_numbers(config, {"checkpoint_every": 1, "keep_checkpoints": 1})
    check_lengths(recipe.objective)
    if isinstance(recipe.objective, ClismObjective) and not any(
        (recipe.objective.clism_weight, recipe.objective.cacr_weight, recipe.objective.mlm_weight)
    ):
        raise ConfigError("all weights of the losses are 0: there is nothing to learn")
    return expected


def check_lengths(objective: ClismObjective | WaeObjective) -> None:
    """Raises `ConfigError` if the texts of an example do not fit into the objective's `max_tokens`."""
    if isinstance(objective, ClismObjective):
        least = {"max_tokens": 16, "max_source_tokens": 1, "max_target_tokens": 1}
    else:
        least = {"max_tokens": 16, "max_query_tokens": 1, "max_context_tokens": 0}
    check_numbers(objective, least)
    for name in least:
        if getattr(objective, name) > objective.max_tokens:
            raise ConfigError(
                f"--{name.replace('_', '-')}: expected at most the {objective.max_tokens} tokens of --max-tokens, the "
                f"limit of a whole sequence, found {getattr(objective, name)}. Lower it or raise --max-tokens"
            )
    if isinstance(objective, WaeObjective) and objective.max_tokens < objective.max_query_tokens + 16:
        raise ConfigError(
            f"queries of {objective.max_query_tokens} tokens leave no room for a context in {objective.max_tokens}. "
            "Lower --max-query-tokens or raise --max-tokens"
        )


def check_output(folder: str) -> None:
    """Raises `ConfigError` if no run can be written to `folder`."""
    if not folder:
        raise ConfigError("no output: name the folder to write with --output FOLDER")
    output = Path(folder)
    own = {_UNFINISHED, "baseline", "candidates"}  # what may be there before run.json
    files = {path.name for path in output.iterdir()} - own if output.exists() else set()
    if files and FILE_NAME not in files:
        raise ConfigError(f"{output}: holds files, but no run ({FILE_NAME} is missing). Take another --output")


def check_numbers(of: object, least: Mapping[str, float]) -> None:
    """Raises `ConfigError` if one of these fields is below its least value."""
    for name, low in least.items():
        if not getattr(of, name) >= low:
            raise ConfigError(f"--{name.replace('_', '-')}: expected {low} or more, found {getattr(of, name)}")


RECIPES_FOR = {
    "clism/1": ["clism", "clism_paper", "clism_no_cacr", "mlm_only", "tiny_clism"],
    "anchor_mrc/1": ["mpmr_base", "mpmr_large", "tiny_mpmr"],
}


def identity(run: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """What `run.json` holds: plain JSON values. `run` is what the command says of itself, with the keys of `DECIDING`
    that apply."""
    names = ("numpy", "pyarrow", "tokenizers", "torch", "transformers")
    return {
        "format_version": FORMAT_VERSION,
        **run,
        "processes": processes,
        "versions": {name: version(name) for name in names},
        "commit": commit(),
    }


def begin(folder: Path, now: Mapping[str, Any]) -> list[str]:
    """Begins the run that `now` describes, or goes on with it; returns what differs without deciding the result.

    Raises `ConfigError` if another run stands in the folder.
    """
    path = folder / FILE_NAME
    if not path.exists():
        whole.text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
        return []
    before = json.loads(path.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(now))
    recipe = before.get("recipe") or {}
    if "model" in recipe and _one_path(recipe["model"], now["recipe"]["model"]):
        before["recipe"] = {**recipe, "model": now["recipe"]["model"]}
    found = list(differences(before, now))
    if deciding := [f"{name}: {what}" for name, what in found if name.partition(".")[0] in DECIDING]:
        raise ConfigError(
            f"{folder} holds another run, which this command cannot go on with. "
            + "; ".join(deciding)
            + ". Repeat its own command, take another --output, or begin anew with --overwrite"
        )
    return [f"{name}: {what}" for name, what in found]


def delete(folder: Path) -> None:
    """Deletes the run in `folder`, `run.json` last; leaves other files alone."""
    if (folder / FILE_NAME).exists() or (folder / "baseline" / FILE_NAME).exists():
        for name in ("checkpoints", "tensorboard", "model", "best", "last", "results", "baseline", "candidates"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in ("metrics.jsonl", "dev.jsonl", FILE_NAME):
            (folder / name).unlink(missing_ok=True)


def differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Name and difference of every plain value that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif before != now:
        yield name, f"{before} when the run was begun, {now} now"


def _one_path(before: str, now: str) -> bool:
    """Whether both may be one model, whose weights are compared besides: named from another folder, or written by an
    older release, which wrote whole paths, one ends like the other."""
    parts = [Path(shown_path(each)).parts for each in (before, now)]
    shared = min(map(len, parts))
    return shared > 0 and parts[0][-shared:] == parts[1][-shared:]


def shown_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as files hold it: the path of its model says nothing of the machine."""
    return {**recipe, "model": shown_path(recipe["model"])} if "model" in recipe else dict(recipe)


def fingerprint_of_dataset(folder: str) -> str:
    """SHA-256 of its manifest, which names the checksum of every shard."""
    return hashlib.sha256((Path(folder) / manifest.FILE_NAME).read_bytes()).hexdigest()
