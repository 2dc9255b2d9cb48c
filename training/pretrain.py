"""`polyspan-train pretrain`: dataset folders → a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from schemas.errors import ConfigError
from schemas.provenance import commit
from schemas.runtime.shown_paths import shown_path
from training.checks.pretraining import check
from training.data.datasets import ShardRows, open_datasets
from training.data.loader import Batches
from training.data.plan import Mix, measure_bytes_per_token, plan_for
from training.data.tokens import TextEncoder
from training.engine import run_folder
from training.engine.command_digest import pretrain_command
from training.engine.held_out import HeldOut
from training.engine.loop import Pauses, train
from training.engine.metrics_log import MetricsLog, SilentLog
from training.engine.run_setup import (
    RunOutcome,
    begin_or_resume,
    choose_device,
    compile_layers,
    delete_previous_run,
    encoder_size,
    fingerprint,
    finish_run,
    log_line,
    open_run_log,
    reserve_output,
    resolve_precision,
    run_line,
)
from training.methods.base import EncoderWithHeads, Method
from training.methods.pretraining_tasks import PretrainingTask, pretraining_task
from training.models.encoder import Encoder
from training.models.folder import Pretrained, Provenance, check_heads, load_model, save_model
from training.models.heads import Head
from training.models.tiny import tiny_model
from training.models.tokenizer import add_que_token
from training.recipes.pretraining import PretrainConfig
from training.runtime import atomic_write
from training.runtime.distributed import barrier, from_first_rank, process_group, rank, world_size
from training.runtime.outputs import MODELS, fingerprint_of_dataset, is_complete, nothing_to_do

STAMPS = "shards.json"  # in the run's folder


def pretrain(config: PretrainConfig) -> RunOutcome:
    """Trains, or goes on training, to the recipe's last step or to a signal, and writes `config.output`.

    Raises `ConfigError`, `InputError` or `DatasetError` before the first step, `TrainingError` where it cannot go on.
    """
    check(config)
    command, output = pretrain_command(config), Path(config.output)
    with process_group() as found, reserve_output(output, config.overwrite, command) as target:
        if target.is_done:
            log_line(nothing_to_do(config.output))
            return RunOutcome(config.recipe.steps, None, rank() == 0)
        finished = _pretrain(replace(config, output=str(target.folder)), found, command, target.is_new)
        return finish_run(output, target, finished)


def _pretrain(config: PretrainConfig, found: torch.device, command: str, is_new: bool) -> RunOutcome:
    """Trains in `config.output`, which no other process writes to. If the folder `is_new`, any run in it is deleted."""
    device = choose_device(config.device, found)
    config = replace(config, recipe=replace(config.recipe, precision=resolve_precision(config.recipe, device)))
    recipe, output, task = config.recipe, Path(config.output), pretraining_task(config.recipe)
    verified = {} if config.verify_shards else read_stamps(output)
    rows = open_datasets(config.data, task.texts, checksums=rank() == 0, verified=verified)
    start, weights = starting_model(config)
    encoder = Encoder(cast(PreTrainedModel, start.language_model.base_model), config.activation_checkpointing)
    text_encoder = TextEncoder(start.tokenizer)
    batches = batches_of(config, rows, text_encoder, encoder.max_tokens, pin_memory=device.type == "cuda")
    method = task.method(recipe.objective)
    nn.Module.to(start.language_model, device)
    model = EncoderWithHeads(encoder, method.heads(start, recipe.seed)).to(device)
    check_heads(output, saved_heads(model, task))
    if config.overwrite and not is_new:
        delete_previous_run(output)
    changed = begin_or_resume(
        output, lambda: run_of(config, weights, text_encoder.fingerprint, command), replaceable=is_new
    )
    if from_first_rank(lambda: is_complete(output)):
        log_line(nothing_to_do(output) if not is_new else f"{output}: the new run is complete")
        return RunOutcome(recipe.steps, None, rank() == 0)

    def open_log(done: int) -> MetricsLog | SilentLog:
        if rank() == 0 and rows.stamps != read_stamps(output):
            atomic_write.text(output / STAMPS, json.dumps(rows.stamps, indent=2) + "\n")
        return open_run_log(output, recipe.steps, done, (opening_line(config, rows, encoder, device, done), *changed))

    held_out = held_out_of(config, text_encoder, encoder.max_tokens) if config.held_out else None
    pauses = pauses_of(config, start, model, method, device, held_out)
    if config.compile:
        compile_layers(encoder)
    steps, stopped_by = train(model, method, batches.starting, config, encoder_size(encoder), device, open_log, pauses)
    if steps == recipe.steps and rank() == 0:
        save(config, start, saved_heads(model, task), "model", steps)
    barrier()
    return RunOutcome(steps, stopped_by if steps < recipe.steps else None, rank() == 0)


def starting_model(config: PretrainConfig) -> tuple[Pretrained, str]:
    """Returns the model that training begins with, with [QUE]; and the fingerprint of its weights before [QUE]."""
    recipe = config.recipe
    if recipe.model == "tiny":
        torch.set_num_threads(1)  # this model is too small to gain by more, and they slow each other on a busy machine
        start = tiny_model(config.data, pretraining_task(recipe).vocabulary_texts, recipe.seed)
    else:
        start = load_model(recipe.model, recipe.seed)
    weights = fingerprint(start.language_model) if rank() == 0 else ""
    add_que_token(start.language_model, start.tokenizer, recipe.seed)
    return start, weights


def batches_of(
    config: PretrainConfig, rows: ShardRows, encoder: TextEncoder, max_tokens: int, pin_memory: bool
) -> Batches:
    """Returns this rank's batches, in the plan's order.

    Raises `ConfigError` if the recipe's texts make sequences of more than the encoder's `max_tokens`.
    """
    recipe, task = config.recipe, pretraining_task(config.recipe)
    limits = task.limits(recipe.objective)
    first, second = (getattr(limits, side) for side in task.sides)
    longest = min(limits.total, len(encoder.pair([0] * first, [0] * second)[0]))
    if longest > max_tokens:
        raise ConfigError(
            f"texts of {first} and {second} tokens make sequences of up to {longest} with special tokens, but "
            f"{recipe.model} has positions for {max_tokens}. Expected at most --max-tokens {max_tokens}"
        )
    rates = measure_bytes_per_token(rows, lambda text: len(encoder.encode(text).ids))
    mix = Mix(recipe.mix_exponent, config.weights)
    return Batches(
        rows,
        plan_for(rows, recipe.batch_size, recipe.seed, mix, bytes_per_token=rates, longest=longest),
        task.collator(recipe, encoder, limits),
        rank=rank(),
        world_size=world_size(),
        most_tokens=config.micro_batch_tokens or None,
        workers=config.loader_workers,
        pin_memory=pin_memory,
    )


def saved_heads(model: EncoderWithHeads, task: PretrainingTask) -> dict[str, nn.Module]:
    """Returns the heads that the model folder keeps beside the language model."""
    return {name: head for name, head in model.heads.items() if name in task.heads}


def held_out_of(config: PretrainConfig, encoder: TextEncoder, max_tokens: int) -> HeldOut:
    """Returns the batches of --held-out, of the size that training has, because contrastive losses depend on it."""
    rows = open_datasets(config.held_out, pretraining_task(config.recipe).texts, checksums=rank() == 0)
    alone = replace(config, weights=(), loader_workers=0)
    count = max(1, min(config.held_out_examples, len(rows)) // config.recipe.batch_size)
    return HeldOut(batches_of(alone, rows, encoder, max_tokens, pin_memory=False).starting(0), count)


def pauses_of(
    config: PretrainConfig,
    start: Pretrained,
    model: EncoderWithHeads,
    method: Method,
    device: torch.device,
    held_out: HeldOut | None,
) -> Pauses:
    """Returns what the run does between steps: evaluations on --held-out, and models of --model-every."""
    recipe, task = config.recipe, pretraining_task(config.recipe)

    def is_evaluated(step: int) -> bool:
        return held_out is not None and (step % config.evaluate_every == 0 or step == recipe.steps)

    def is_kept(step: int) -> bool:
        return config.model_every > 0 and step % config.model_every == 0 and step < recipe.steps

    def figures(step: int) -> dict[str, float]:
        return held_out.figures(model, method, recipe, device) if held_out and is_evaluated(step) else {}

    def keep(step: int, log: MetricsLog | SilentLog) -> bool:
        if is_kept(step) and rank() == 0:
            name = f"{MODELS}/step-{step:08}"
            save(config, start, saved_heads(model, task), name, step)
            log.print_line(f"  the model of step {step:,}: {Path(config.output) / name}")
        return False

    return Pauses(lambda step: is_evaluated(step) or is_kept(step), figures, keep)


def read_stamps(output: Path) -> dict[str, Any]:
    """Returns the stamps of the shards that this run has compared with their checksums (`ShardRows.stamps`)."""
    try:
        stamps = json.loads((output / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def save(config: PretrainConfig, start: Pretrained, heads: Mapping[str, nn.Module], name: str, steps: int) -> None:
    """Writes the model after `steps` steps, whose weights are shared with `start`, to this folder of the run."""
    save_model(
        Path(config.output) / name,
        start.language_model,
        start.tokenizer,
        cast(Mapping[str, Head], heads),
        provenance(config, steps),
    )


def run_of(config: PretrainConfig, weights: str, tokenizer: str, command: str) -> dict[str, Any]:
    """Returns the values of run.json; `weights` and `tokenizer` are the fingerprints of the starting model's."""
    return {
        "recipe": run_folder.shown_recipe(asdict(config.recipe)),
        "data": {f"{number}": fingerprint_of_dataset(folder) for number, folder in enumerate(config.data, start=1)},
        "folders": list(map(shown_path, config.data)),
        "held_out": list(map(shown_path, config.held_out)),
        "weights": list(config.weights),
        "model": {"weights": weights, "tokenizer": tokenizer},
        "micro_batch_tokens": config.micro_batch_tokens,
        "compile": config.compile,
        "command": command,
    }


def provenance(config: PretrainConfig, steps: int) -> Provenance:
    """Returns the model's origin, for polyspan.json and the model card."""
    data = {Path(folder).name: fingerprint_of_dataset(folder) for folder in config.data}
    recipe = run_folder.shown_recipe(asdict(config.recipe))
    return Provenance(recipe["model"], recipe, data, steps, commit())


def opening_line(config: PretrainConfig, rows: ShardRows, encoder: Encoder, device: torch.device, done: int) -> str:
    recipe = config.recipe
    work = (
        f"{len(rows):,} examples in {len(rows.langs)} {pretraining_task(recipe).languages}, "
        f"{recipe.batch_size} a step, {recipe.steps * recipe.batch_size / len(rows):,.2g} epochs"
    )
    return run_line("Training", recipe, encoder, device, work, done)
