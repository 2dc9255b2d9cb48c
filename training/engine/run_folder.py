"""Identifies the run of a folder. A repeated command resumes its own run and refuses any other.

run.json          recipe, data, model, versions, commit: written first checkpoints/      training/engine/checkpoint.py
metrics.jsonl, tensorboard/   training/engine/metrics_log.py model/            training/models/folder.py: written last
Fine-tuning also writes dev.jsonl (training/engine/best_checkpoint.py), best/, which becomes model/ at the end, and
last/ if the last weights are not the best. Pre-training also writes shards.json, which names the shards that were
compared with their checksums, and models/step-…, the models that it keeps on its way. Two-stage training writes
baseline/ and candidates/, evaluations write results/. Any other file in the folder is foreign: no command deletes it,
and every command refuses to write into its folder (training/runtime/outputs.py). With --overwrite, a new run is made in
`.NAME.new` and replaces a complete old one at its end. Processes on several machines need a shared file system.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.provenance import commit
from schemas.runtime import output_folder
from schemas.runtime.shown_paths import shown_path
from training.runtime import atomic_write, outputs

FORMAT_VERSION = 1
FILE_NAME = "run.json"
# Fields that must match to resume; other differences are only logged.
DECIDING = ("recipe", "data", "weights", "model", "baseline", "selection")


def identity(run: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """Returns the JSON values of `run.json`. `run` describes the command, with the keys of `DECIDING` that apply."""
    names = ("numpy", "pyarrow", "tokenizers", "torch", "transformers")
    return {
        "format_version": FORMAT_VERSION,
        **run,
        "processes": processes,
        "versions": {name: version(name) for name in names},
        "commit": commit(),
    }


def begin(folder: Path, now: Mapping[str, Any], replaceable: bool = False) -> list[str]:
    """Begins or resumes the run that `now` describes. Returns the differences that do not decide the result.

    Raises `ConfigError` if the folder holds another run, unless that one is `replaceable` or never took a step.
    """
    path, now = folder / FILE_NAME, json.loads(json.dumps(now))
    kept = (outputs.FIRST_STAGE, *outputs.RUN_DATA) if now.get("baseline") else ()
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if before is not None:
        before["recipe"] = _with_model_as_in(before.get("recipe") or {}, now["recipe"])
    changed = _changed(folder, before, now, kept)
    deciding = [f"{name}: {what}" for name, what in changed if name.partition(".")[0] in DECIDING]
    if deciding and not replaceable and _has_own_progress(folder, kept):
        raise _another(folder, deciding)
    if deciding:
        outputs.delete_run_but(folder, kept)
    if deciding or before is None:
        atomic_write.text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
        return []
    told = [name for name, _ in changed if name.partition(".")[0] not in ("command", "held_out")]
    return [f"{name}: {what}" for name, what in changed if name in told]


def refuse_another_recipe(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Raises `ConfigError` as `begin` does, but before a run's first stage.

    It compares the recipe without steps and precision, which depend on the data and the device, and without the model,
    which `begin` compares by its weights.
    """
    if not (outputs.is_run(folder) and outputs.has_progress(folder)):
        return
    before = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))["recipe"]
    differences = output_folder.differences(before, json.loads(json.dumps(recipe)), "recipe")
    later = ("recipe.steps", "recipe.precision", "recipe.model")
    if deciding := [f"{name}: {what}" for name, what in differences if name not in later]:
        raise _another(folder, deciding)


def _another(folder: Path, deciding: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"{folder} holds another run, which this command cannot go on with. "
        + "; ".join(deciding)
        + ". Repeat its own command, take another --output, or begin anew with --overwrite"
    )


def _changed(folder: Path, before: Any, now: Any, kept: Iterable[str]) -> list[tuple[str, str]]:
    if before is not None:
        return list(output_folder.differences(before, now))
    if not kept and outputs.is_run(folder / outputs.FIRST_STAGE):
        return [("recipe", "it has the first stage of a two-stage run, and this run has one stage")]
    return []


def _has_own_progress(folder: Path, kept: Iterable[str]) -> bool:
    """Returns whether the folder's run took a step. A baseline that this run reuses does not count."""
    baseline = folder / outputs.FIRST_STAGE
    if outputs.FIRST_STAGE in kept or not outputs.is_run(baseline):
        return outputs.has_progress(folder)
    return outputs.has_progress(folder) or outputs.has_progress(baseline)


def _with_model_as_in(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recipe with its model's name taken from `now`, if both names may be one model's."""
    is_one = "model" in before and "model" in now and _one_path(before["model"], now["model"])
    return {**before, "model": now["model"]} if is_one else dict(before)


def _one_path(before: str, now: str) -> bool:
    """Returns whether both names may be one model's: one path ends like the other.

    The command may run in another folder, and an older release wrote whole paths. The weights are compared separately.
    """
    parts = [Path(shown_path(name)).parts for name in (before, now)]
    shared = min(map(len, parts))
    return shared > 0 and parts[0][-shared:] == parts[1][-shared:]


def shown_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recipe for output files, with a model path that reveals nothing of the machine."""
    return {**recipe, "model": shown_path(recipe["model"])} if "model" in recipe else dict(recipe)
