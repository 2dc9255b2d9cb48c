"""`polyspan-train pretrain`: dataset folders → a model folder."""

from __future__ import annotations

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
from training.data.collators import ClismCollator, Collator, WaeCollator
from training.data.datasets import ShardRows, open_datasets
from training.data.features import Limits
from training.data.loader import Batches
from training.data.masking import Mlm
from training.data.plan import Mix, measure_bytes_per_token, plan_for
from training.data.tokens import TextEncoder
from training.engine import run_folder
from training.engine.command_digest import pretrain_command
from training.engine.loop import train
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
from training.methods.base import EncoderWithHeads
from training.methods.clism import ClismMethod
from training.methods.wae import WaeMethod
from training.models.encoder import Encoder
from training.models.folder import Pretrained, Provenance, load_model, save_model
from training.models.heads import SpanHead, WaeExtractor
from training.models.tiny import tiny_model
from training.models.tokenizer import add_que_token
from training.recipes.pretraining import ClismObjective, PretrainConfig, Recipe, WaeObjective
from training.runtime.distributed import barrier, from_first_rank, process_group, rank, world_size
from training.runtime.outputs import is_complete, nothing_to_do


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
    """Trains in `config.output`, which no other process writes to. If it `is_new`, another run there may go."""
    device = choose_device(config.device, found)
    config = replace(config, recipe=replace(config.recipe, precision=resolve_precision(config.recipe, device)))
    recipe, output = config.recipe, Path(config.output)
    rows = open_datasets(config.data, checksums=rank() == 0)
    start, weights = starting_model(config, rows.schema)
    encoder = Encoder(cast(PreTrainedModel, start.language_model.base_model), config.activation_checkpointing)
    text_encoder = TextEncoder(start.tokenizer)
    batches = batches_of(config, rows, text_encoder, encoder.max_tokens, pin_memory=device.type == "cuda")
    method = method_of(recipe.objective)
    nn.Module.to(start.language_model, device)
    model = EncoderWithHeads(encoder, method.heads(start, recipe.seed)).to(device)
    if config.overwrite and not is_new:
        delete_previous_run(output)
    changed = begin_or_resume(
        output, lambda: run_of(config, weights, text_encoder.fingerprint, command), replaceable=is_new
    )
    if from_first_rank(lambda: is_complete(output)):
        log_line(nothing_to_do(output) if not is_new else f"{output}: the new run is complete")
        return RunOutcome(recipe.steps, None, rank() == 0)

    def open_log(done: int) -> MetricsLog | SilentLog:
        return open_run_log(output, recipe.steps, done, (opening_line(config, rows, encoder, device, done), *changed))

    if config.compile:
        compile_layers(encoder)
    steps, stopped_by = train(model, method, batches.starting, config, encoder_size(encoder), device, open_log)
    if steps == recipe.steps and rank() == 0:
        heads = {name: head for name, head in model.heads.items() if isinstance(head, SpanHead | WaeExtractor)}
        save_model(output / "model", start.language_model, start.tokenizer, heads, provenance(config, steps))
    barrier()
    return RunOutcome(steps, stopped_by if steps < recipe.steps else None, rank() == 0)


def method_of(objective: ClismObjective | WaeObjective) -> ClismMethod | WaeMethod:
    return ClismMethod(objective) if isinstance(objective, ClismObjective) else WaeMethod(objective)


def starting_model(config: PretrainConfig, schema: str) -> tuple[Pretrained, str]:
    """The model that training begins with, with [QUE]; and the fingerprint of its weights before that."""
    recipe = config.recipe
    if recipe.model == "tiny":
        torch.set_num_threads(1)  # more would gain nothing here, and wait for one another on a busy machine
        start = tiny_model(config.data, schema, recipe.seed)
    else:
        start = load_model(recipe.model, recipe.seed)
    weights = fingerprint(start.language_model) if rank() == 0 else ""
    add_que_token(start.language_model, start.tokenizer, recipe.seed)
    return start, weights


def batches_of(
    config: PretrainConfig, rows: ShardRows, encoder: TextEncoder, max_tokens: int, pin_memory: bool
) -> Batches:
    """This rank's batches, in the plan's order. Raises `ConfigError` if the recipe's texts do not fit the encoder."""
    recipe, limits = config.recipe, limits_of(config.recipe)
    texts = (limits.source, limits.target) if is_clism(recipe) else (limits.query, limits.context)
    longest = min(limits.total, len(encoder.pair([0] * texts[0], [0] * texts[1])[0]))
    if longest > max_tokens:
        raise ConfigError(
            f"texts of {texts[0]} and {texts[1]} tokens make sequences of up to {longest} with special tokens, but "
            f"{recipe.model} has positions for {max_tokens}. Expected at most --max-tokens {max_tokens}"
        )
    rates = measure_bytes_per_token(rows, lambda text: len(encoder.encode(text).ids))
    mix = Mix(recipe.mix_exponent, config.weights)
    return Batches(
        rows,
        plan_for(rows, recipe.batch_size, recipe.seed, mix, bytes_per_token=rates, longest=longest),
        collator_of(recipe, encoder, limits),
        rank=rank(),
        world_size=world_size(),
        most_tokens=config.micro_batch_tokens or None,
        workers=config.loader_workers,
        pin_memory=pin_memory,
    )


def collator_of(recipe: Recipe, encoder: TextEncoder, limits: Limits) -> Collator:
    """How rows become batches."""
    if not isinstance(recipe.objective, ClismObjective):
        return WaeCollator(encoder, limits)
    special = encoder.special_ids | {encoder.tokenizer.unk_token_id}
    mlm = Mlm(encoder.mask_id, len(encoder.tokenizer), special, recipe.objective.mlm_share)
    return ClismCollator(encoder, limits, mlm if recipe.objective.mlm_weight else None, recipe.seed)


def is_clism(recipe: Recipe) -> bool:
    return isinstance(recipe.objective, ClismObjective)


def limits_of(recipe: Recipe) -> Limits:
    of = recipe.objective
    if isinstance(of, ClismObjective):
        return Limits(source=of.max_source_tokens, target=of.max_target_tokens, total=of.max_tokens)
    return Limits(query=of.max_query_tokens, context=of.max_context_tokens or of.max_tokens, total=of.max_tokens)


def run_of(config: PretrainConfig, weights: str, tokenizer: str, command: str) -> dict[str, Any]:
    """What run.json holds; `weights` and `tokenizer` are the fingerprints of what training begins with."""
    return {
        "recipe": run_folder.shown_recipe(asdict(config.recipe)),
        "data": {f"{at}": run_folder.fingerprint_of_dataset(folder) for at, folder in enumerate(config.data, start=1)},
        "folders": list(map(shown_path, config.data)),
        "weights": list(config.weights),
        "model": {"weights": weights, "tokenizer": tokenizer},
        "micro_batch_tokens": config.micro_batch_tokens,
        "compile": config.compile,
        "command": command,
    }


def provenance(config: PretrainConfig, steps: int) -> Provenance:
    data = {Path(folder).name: run_folder.fingerprint_of_dataset(folder) for folder in config.data}
    recipe = run_folder.shown_recipe(asdict(config.recipe))
    return Provenance(recipe["model"], recipe, data, steps, commit())


def opening_line(config: PretrainConfig, rows: ShardRows, encoder: Encoder, device: torch.device, done: int) -> str:
    recipe = config.recipe
    work = (
        f"{len(rows):,} examples in {len(rows.langs)} {'language pairs' if is_clism(recipe) else 'languages'}, "
        f"{recipe.batch_size} a step, {recipe.steps * recipe.batch_size / len(rows):,.2g} epochs"
    )
    return run_line("Training", recipe, encoder, device, work, done)
