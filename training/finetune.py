"""`polyspan-train finetune`: a task's files and an encoder → a model folder that `evaluate` and `predict` take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, TaggingExample
from schemas.provenance import commit
from schemas.runtime.output_folder import tidy
from training.checks.finetuning import check as check
from training.checks.finetuning import check_inputs, needs_baseline
from training.data.tokens import TextEncoder
from training.data.windows import taught
from training.engine import checkpoint, run_folder
from training.engine.best_checkpoint import FILE_NAME as DEV_FILE
from training.engine.best_checkpoint import Selection, flat
from training.engine.best_checkpoint import read as read_evaluations
from training.engine.command_digest import finetune_command
from training.engine.loop import make_optimizer, resume, train
from training.engine.metrics_log import LOST, NOTED, MetricsLog, SilentLog
from training.engine.run_setup import (
    RunOutcome,
    begin_or_resume,
    choose_device,
    delete_previous_run,
    encoder_size,
    fingerprint,
    finish_run,
    log_line,
    reserve_output,
    resolve_precision,
)
from training.evaluate import DevSet, dev_scores, main_score
from training.inference.candidates import baseline_candidates
from training.methods.base import EncoderWithHeads, has_pretrained_head
from training.methods.feature_batches import batches_of
from training.methods.registry import formulation_of
from training.models.encoder import Encoder
from training.models.finetuned import foreign_heads, save_finetuned
from training.models.folder import Pretrained, Provenance, load_model
from training.models.tiny import MOST_TEXTS, random_model, train_tokenizer
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe, InferenceSettings, Plain, Que, plain_values
from training.runtime import atomic_write
from training.runtime.distributed import all_reduce_sum, barrier, from_first_rank, process_group, rank, world_size
from training.runtime.errors import TrainingError
from training.runtime.outputs import is_complete, model_files, nothing_to_do, tidy_run
from training.tasks.catalog import TASKS
from training.tasks.records import Records, few, labels_of, read_records

Save = Callable[[str, int, dict[str, float]], None]  # folder, steps done, scores


def finetune(config: FinetuneConfig) -> RunOutcome:
    """Trains, or goes on training, to the recipe's last step, to the end of its patience or to a signal, and writes
    `config.output`.

    Raises `ConfigError`, `InputError` or `DatasetError` before the first step, `TrainingError` where it cannot go on.
    """
    check(config)
    check_inputs(config)
    command, output = finetune_command(config), Path(config.output)
    with process_group() as found, reserve_output(output, config.overwrite, command) as target:
        if target.is_done:
            log_line(nothing_to_do(output))
            return RunOutcome(0, None, rank() == 0)
        finished = _finetune(replace(config, output=str(target.folder)), found, command, target.is_new)
        return finish_run(output, target, finished)


def _finetune(config: FinetuneConfig, found: torch.device, command: str, is_new: bool) -> RunOutcome:
    """Trains in `config.output`, which no other process writes to. If it `is_new`, another run there may go."""
    device, recipe, output = choose_device(config.device, found), config.recipe, Path(config.output)
    log_line("Reading " + ", ".join(path.name for path in (*config.train, *config.dev)))
    read = read_records(config.train, recipe.task, config.train_langs, labelled=True)
    records = few(read.records, recipe.examples, recipe.sample) if recipe.examples else read.records
    dev = dev_sets(config)
    if config.overwrite and not is_new and needs_baseline(recipe) and not config.baseline:
        delete_previous_run(output)
        config = replace(config, overwrite=False)
    if needs_baseline(recipe) and not config.baseline:
        if not is_new:
            from_first_rank(lambda: run_folder.refuse_another_recipe(output, plain_values(recipe)))
        finished = first_stage(config, found, is_new)
        if finished.stopped_by:
            return finished
        config = replace(config, baseline=str(output / "baseline" / "model"))
    recipe = replace(recipe, precision=resolve_precision(recipe, device))
    log_line(f"Loading {recipe.model}; {len(records):,} records of {recipe.task} become its tokens")
    start, weights = starting_model(recipe, records)
    encoder = Encoder(cast(PreTrainedModel, start.language_model.base_model), config.activation_checkpointing)
    text_encoder = TextEncoder(start.tokenizer)
    reading = inference_settings_of(recipe, labels_of(records, recipe.task), encoder.max_tokens)
    if config.overwrite and not is_new:
        delete_previous_run(output)
    config = replace(config, overwrite=is_new)
    candidates = baseline_candidates(config, cast(Any, records)) if config.baseline else None
    formulation = formulation_of(reading, text_encoder, candidates)
    read_features = formulation.features(records)
    features = taught(read_features)
    if not features:
        raise ConfigError(f"the {len(records):,} records of --train give nothing to train on: see --task")
    steps_an_epoch = math.ceil(len(features) / recipe.batch_size)
    recipe = replace(recipe, steps=recipe.steps or max(1, math.ceil(recipe.epochs * steps_an_epoch)))
    config = replace(config, recipe=recipe)

    nn.Module.to(start.language_model, device)
    model = EncoderWithHeads(encoder, formulation.heads(start, recipe.seed)).to(device)
    told = [
        *(head_line(name, has_pretrained_head(start, name, head)) for name, head in model.heads.items()),
        *(f"  --train: {each}" for each in read.accounts),
        *(f"  --dev: {each}" for each in dev.accounts),
        *what_was_lost(read, records, read_features, features),
    ]
    changed = begin_or_resume(
        output, lambda: run_of(config, read, dev, weights, text_encoder.fingerprint, command), replaceable=is_new
    )

    def save(folder: str, steps: int, scores: dict[str, float]) -> None:
        described = run_folder.shown_recipe(plain_values(recipe))
        about = Provenance(described["model"], described, dict(read.files), steps, commit())
        heads: dict[str, Any] = dict(model.heads.items())
        save_finetuned(output / folder, start.language_model, start.tokenizer, heads, reading, about, scores)

    if from_first_rank(lambda: is_complete(output)):
        log_line(nothing_to_do(output) if not is_new else f"{output}: the new run is complete")
        evaluated = read_evaluations(output / DEV_FILE)
        return RunOutcome(evaluated[-1]["step"] if evaluated else recipe.steps, None, rank() == 0)
    done = from_first_rank(lambda: steps_done(output))
    selection = Selection(output, done, config.patience) if rank() == 0 else None  # the first rank's alone
    every = config.evaluate_every or steps_an_epoch

    def open_log(done: int) -> MetricsLog | SilentLog:
        if rank():
            return SilentLog()
        log = MetricsLog(output, recipe.steps, done)
        for each in (opening_line(config, read, records, features, encoder, device, done), *told, *changed):
            log.print_line(each)
        return log

    def ends_after(step: int, log: MetricsLog | SilentLog) -> bool:
        if not dev.sets or (step % every and step < recipe.steps):
            return False
        if selection:  # the other ranks wait
            figures = dev_scores(model, formulation, dev.sets, device, resolve_precision(recipe, device))
            if selection.add(step, step / steps_an_epoch, main_score(figures), figures):
                save("best", step, flat(figures))
            log.print_line(selection.last_line)
        return agreed(selection is not None and selection.is_over)

    if config.compile:
        for layer in encoder.layers:
            layer.compile()
    stopped_by = None
    if agreed(selection is not None and selection.is_over):  # all that is left to do is to save the weights
        resume(output / "checkpoints", model, make_optimizer(model, recipe, device))
    else:
        batches = batches_of(config, formulation, features, pin_memory=device.type == "cuda")
        done, stopped_by = train(
            model, formulation, batches.starting, config, encoder_size(encoder), device, open_log, ends_after
        )
    if selection and (done == recipe.steps or selection.is_over):
        publish(output, save, done, selection)
    barrier()
    return RunOutcome(done, stopped_by, rank() == 0)


# --- before the first step --------------------------------------------------------------------------------------------


def inference_settings_of(recipe: FinetuneRecipe, labels: tuple[str, ...], positions: int) -> InferenceSettings:
    """What the recipe says of reading. Raises `ConfigError` if the encoder cannot read so much at once."""
    if recipe.max_tokens > positions:
        raise ConfigError(
            f"sequences of {recipe.max_tokens} tokens, but {recipe.model} has positions for {positions}. "
            f"Lower --max-tokens"
        )
    return InferenceSettings(
        method=recipe.method,
        kind=TASKS[recipe.task].kind,
        labels=labels,
        max_tokens=recipe.max_tokens,
        max_query_tokens=recipe.max_query_tokens,
        stride=recipe.stride,
        max_answer_tokens=recipe.max_answer_tokens,
    )


def starting_model(recipe: FinetuneRecipe, records: Sequence[Any]) -> tuple[Pretrained, str]:
    """The model that training begins with; and the fingerprint of its weights."""
    if recipe.model == "tiny":
        torch.set_num_threads(1)  # more would gain nothing here, and wait for one another on a busy machine
        texts = islice((text for record in records for text in texts_of(record)), MOST_TEXTS)
        start = random_model(train_tokenizer(texts), recipe.seed)
    else:
        start = load_model(recipe.model, recipe.seed, mlm=False)
        start = start._replace(heads=start.heads or foreign_heads(recipe.model))
    weights = fingerprint(start.language_model) if rank() == 0 else ""
    if isinstance(recipe.method, Que):
        add_que_token(start.language_model, start.tokenizer, recipe.seed)
    return start, weights


def texts_of(record: Any) -> tuple[str, ...]:
    if isinstance(record, MrcExample):
        return (record.query, record.context)
    return (record.text,) if isinstance(record, TaggingExample) else (record.sentence1, record.sentence2)


class Dev(NamedTuple):
    """What the best weights are chosen by."""

    sets: Sequence[DevSet]  # one for each file
    files: Mapping[str, str]  # as `Records.files`
    accounts: Sequence[str]  # as `Records.accounts`


def dev_sets(config: FinetuneConfig) -> Dev:
    if not config.dev:
        return Dev((), {}, ())
    task = config.dev_task or config.recipe.task
    read = read_records(config.dev, task, config.dev_langs, labelled=True)
    if without := [each for each in read.records if isinstance(each, MrcExample) and not each.answer_texts]:
        raise InputError(
            f"--dev: {len(without):,} of {len(read.records):,} questions are unanswerable, such as {without[0].id}; "
            "the scorer of SQuAD 1.1 compares with answers. Take them out of the files"
        )
    records, sets = iter(read.records), []
    names = [path.name for path in config.dev]
    for path, source in zip(config.dev, read.sources, strict=True):
        name = path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}"
        sets.append(DevSet(name, task, list(islice(records, source.records))))
    return Dev(sets, read.files, read.accounts)


def first_stage(config: FinetuneConfig, found: torch.device, is_new: bool) -> RunOutcome:
    """The baseline of two-stage training: the same recipe with the plain loss, in a run of its own."""
    recipe = replace(config.recipe, name=f"{config.recipe.name}_baseline", method=Plain())
    stage = replace(config, recipe=recipe, output=str(Path(config.output) / "baseline"), overwrite=False)
    return _finetune(stage, found, finetune_command(stage), is_new)


def agreed(by_the_first: bool) -> bool:
    """What the first rank says, on every rank; the others say False."""
    return bool(all_reduce_sum(torch.tensor(float(by_the_first))).item())


# --- which weights stay -----------------------------------------------------------------------------------------------


def publish(output: Path, save: Save, steps: int, selection: Selection) -> None:
    """The best weights as model/; the last ones beside them if they are others. The checkpoints, thrice the model's
    size, go. May be repeated."""
    if best := selection.best:
        if best["step"] != steps:
            save("last", steps, flat(selection.rows[-1]["figures"]))
        if (output / "best").is_dir():
            tidy(output / "best", model_files)
            (output / "best").rename(output / "model")
        elif not (output / "model").is_dir():
            raise TrainingError(f"{output / 'best'} is gone, the best weights with it. Begin anew with --overwrite")
    else:
        save("model", steps, {})
    delete_checkpoints(output)


def delete_checkpoints(output: Path) -> None:
    """All at once, so that no half of one is taken for a damaged one."""
    doomed = atomic_write.temporary(output / "checkpoints")
    if (output / "checkpoints").exists():
        (output / "checkpoints").rename(doomed)
    tidy_run(output)


def steps_done(output: Path) -> int:
    found, _ = checkpoint.newest_sound(output / "checkpoints")
    return checkpoint.step_of(found) if found else 0


# --- what is told -----------------------------------------------------------------------------------------------------


def run_of(
    config: FinetuneConfig, read: Records, dev: Dev, weights: str, tokenizer: str, command: str
) -> dict[str, Any]:
    """What run.json holds; `weights` and `tokenizer` are the fingerprints of what training begins with."""
    candidates = str(Path(config.output) / "candidates")
    return {
        "recipe": run_folder.shown_recipe(plain_values(config.recipe)),
        "data": dict(read.files),
        "model": {"weights": weights, "tokenizer": tokenizer},
        "baseline": run_folder.fingerprint_of_dataset(candidates) if config.baseline else None,
        "selection": {"files": dict(dev.files), "every": config.evaluate_every, "patience": config.patience},
        "micro_batch_tokens": config.micro_batch_tokens,
        "compile": config.compile,
        "command": command,
    }


def opening_line(
    config: FinetuneConfig,
    read: Records,
    records: Sequence[Any],
    features: Sequence[Any],
    encoder: Encoder,
    device: torch.device,
    done: int,
) -> str:
    recipe, where = config.recipe, torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    parameters = sum(each.numel() for each in encoder.parameters())
    few_of = f" of {len(read.records):,}" if len(records) < len(read.records) else ""
    parts = (
        f"{'Going on' if done else 'Fine-tuning'} with {recipe.name} on {where}",
        f" in {world_size()} processes" if world_size() > 1 else "",
        f": an encoder of {len(encoder.layers)} layers and {parameters / 1e6:,.1f} million weights ({recipe.model}), ",
        f"{len(records):,}{few_of} records in {len(features):,} sequences, {recipe.batch_size} a step, "
        f"{recipe.steps:,} steps",
        f"; {done:,} steps are done." if done else ".",
    )
    return "".join(parts)


def head_line(name: str, is_brought: bool) -> str:
    """CLISM's and mPMR's few-shot gains are those of a head that was trained before."""
    return f"  head {name}: {'of the starting model' if is_brought else 'new, with random weights'}"


def what_was_lost(read: Records, records: Sequence[Any], found: Sequence[Any], taught: Sequence[Any]) -> list[str]:
    """`found` are the records' features, `taught` those to train on."""
    notes = Counter(note for each in found for note in each.notes)
    words, seen = LOST | NOTED, (*read.flags.items(), *sorted(notes.items()))
    lines = [f"  {words.get(reason, reason)}: {number:,}" for reason, number in seen]
    if nothing := len(records) - len({each.record for each in found}):
        lines.append(f"  left out, as the tokenizer leaves nothing of them: {nothing:,} records")
    if len(taught) < len(found):
        lines.append(f"  left out, as their answers were lost: {len(found) - len(taught):,} sequences")
    return lines
