"""`polyspan-train finetune`: trains an encoder on a task's files, for `evaluate` and `predict`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from schemas.errors import ConfigError, InputError
from schemas.mrc import MrcExample, PairExample
from schemas.provenance import commit
from schemas.runtime.output_folder import tidy
from schemas.translations import texts_of
from training.checks.finetuning import check, check_inputs
from training.data.tokens import TextEncoder
from training.data.windows import taught
from training.engine import checkpoint, run_folder
from training.engine.best_checkpoint import FILE_NAME as DEV_FILE
from training.engine.best_checkpoint import Selection, flat
from training.engine.best_checkpoint import read as read_evaluations
from training.engine.command_digest import finetune_command
from training.engine.loop import Pauses, train
from training.engine.metrics_log import LOST, NOTED, MetricsLog, SilentLog
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
    resolve_micro_batch_tokens,
    resolve_precision,
    run_line,
)
from training.evaluate import DevSet, dev_scores, main_score
from training.methods.base import EncoderWithHeads, has_pretrained_head
from training.methods.feature_batches import batches_of
from training.methods.formulation import Formulation
from training.methods.registry import formulation_of
from training.models.encoder import Encoder
from training.models.finetuned import foreign_heads, save_finetuned
from training.models.folder import Pretrained, Provenance, load_model
from training.models.tiny import MOST_TEXTS, random_model, train_tokenizer
from training.models.tokenizer import add_que_token
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe, InferenceSettings, plain_values
from training.recipes.methods import MethodSettings, RunData
from training.runtime import atomic_write
from training.runtime.distributed import all_reduce_sum, barrier, from_first_rank, process_group, rank
from training.runtime.errors import TrainingError
from training.runtime.outputs import FIRST_STAGE, MODEL, is_complete, model_files, nothing_to_do, tidy_run
from training.tasks.catalog import TASKS
from training.tasks.queries import pair_queries, tag_queries
from training.tasks.records import Records, few, labels_of, read_records
from training.tasks.translations import read_translations

Save = Callable[[str, int, dict[str, float]], None]  # folder, steps done, scores


@dataclass(frozen=True)
class Data:
    """The records of a run."""

    read: Records  # all records of --train
    records: Sequence[Any]  # those to train on
    dev: Dev


@dataclass(frozen=True)
class Prepared:
    """What `train_and_publish` needs."""

    config: FinetuneConfig  # with the precision and the number of steps that the run has
    data: Data
    device: torch.device
    start: Pretrained
    weights: str  # fingerprint of the weights that training starts from
    text_encoder: TextEncoder
    settings: InferenceSettings
    formulation: Formulation
    run_data: RunData
    features: Sequence[Any]
    model: EncoderWithHeads
    lines: Sequence[str]  # of the log: where the heads come from, and what was left out
    steps_per_epoch: int

    @property
    def output(self) -> Path:
        return Path(self.config.output)


def finetune(config: FinetuneConfig) -> RunOutcome:
    """Trains, or goes on training, to the recipe's last step, to the end of its patience or to a signal, and writes
    `config.output`.

    Raises `ConfigError`, `InputError` or `DatasetError` before the first step, `TrainingError` where it cannot go on.
    """
    check(config)
    check_inputs(config)
    command, output = finetune_command(config), Path(config.output)
    with process_group() as process_device, reserve_output(output, config.overwrite, command) as target:
        if target.is_done:
            log_line(nothing_to_do(output))
            return RunOutcome(0, None, rank() == 0)
        outcome = run_stages(replace(config, output=str(target.folder)), process_device, command, target.is_new)
        return finish_run(output, target, outcome)


def run_stages(config: FinetuneConfig, process_device: torch.device, command: str, is_new: bool) -> RunOutcome:
    """Trains in `config.output`, after the method's first stage if it has one.

    No other process writes to the folder. If it `is_new`, a run of other settings in it may be replaced.
    """
    device, data = choose_device(config.device, process_device), read_data(config)
    first_method = None if config.baseline else config.recipe.method.first_stage()
    if first_method is None:
        return train_and_publish(prepare(config, data, device, is_new), command, is_new)
    outcome = run_first_stage(config, first_method, process_device, is_new)
    if outcome.stopped_by:
        return outcome
    baseline = str(Path(config.output) / FIRST_STAGE / "model")
    last = replace(config, baseline=baseline, overwrite=False)  # the first stage has deleted what there was to delete
    return train_and_publish(prepare(last, data, device, is_new), command, is_new)


def run_first_stage(
    config: FinetuneConfig, method: MethodSettings, process_device: torch.device, is_new: bool
) -> RunOutcome:
    """Trains the model that the recipe's method learns from: with the same recipe and this method, in a run of its own
    inside `config.output`."""
    output = Path(config.output)
    if config.overwrite and not is_new:
        delete_previous_run(output)
    if not is_new:
        from_first_rank(lambda: run_folder.refuse_another_recipe(output, plain_values(config.recipe)))
    recipe = replace(config.recipe, name=f"{config.recipe.name}_{FIRST_STAGE}", method=method)
    first = replace(config, recipe=recipe, output=str(output / FIRST_STAGE), overwrite=False)
    return run_stages(first, process_device, finetune_command(first), is_new)


def prepare(config: FinetuneConfig, data: Data, device: torch.device, is_new: bool) -> Prepared:
    """Loads the model and turns the records into features."""
    recipe, records = config.recipe, data.records
    log_line(f"Loading {recipe.model}; {len(records):,} records of {recipe.task} become its tokens")
    start, weights = starting_model(config, records)
    encoder = Encoder(cast(PreTrainedModel, start.language_model.base_model), config.activation_checkpointing)
    text_encoder = TextEncoder(start.tokenizer)
    settings = inference_settings_of(recipe, labels_of(records, recipe.task), encoder.max_tokens)
    if config.overwrite and not is_new:
        delete_previous_run(Path(config.output))
    resolved = replace(
        config,
        recipe=replace(recipe, precision=resolve_precision(recipe, device)),
        overwrite=is_new,
        micro_batch_tokens=resolve_micro_batch_tokens(config, device),
    )
    run_data = resolve_name(recipe.method.run_data)(resolved, records) if recipe.method.run_data else RunData({})
    assert run_data.fingerprint or not recipe.method.first_stage(), f"{recipe.method.run_data} gives no fingerprint"
    formulation = formulation_of(settings, text_encoder, **run_data.fields)
    all_features = formulation.training_features(records)
    features = taught(all_features)
    if not features:
        raise ConfigError(f"the {len(records):,} records of --train give nothing to train on: see --task")
    steps_per_epoch = math.ceil(len(features) / recipe.batch_size)
    steps = recipe.steps or max(1, math.ceil(recipe.epochs * steps_per_epoch))
    nn.Module.to(start.language_model, device)
    model = EncoderWithHeads(encoder, formulation.heads(start, recipe.seed)).to(device)
    head_lines = [head_line(name, has_pretrained_head(start, name, head)) for name, head in model.heads.items()]
    return Prepared(
        config=replace(resolved, recipe=replace(resolved.recipe, steps=steps)),
        data=data,
        device=device,
        start=start,
        weights=weights,
        text_encoder=text_encoder,
        settings=settings,
        formulation=formulation,
        run_data=run_data,
        features=features,
        model=model,
        lines=[*head_lines, *account_lines(data), *run_data.lines, *loss_lines(data, all_features, features)],
        steps_per_epoch=steps_per_epoch,
    )


def train_and_publish(run: Prepared, command: str, is_new: bool) -> RunOutcome:
    """Trains to the end or to a signal; at the end writes the models and deletes the checkpoints."""
    output, steps = run.output, run.config.recipe.steps
    changed = begin_or_resume(output, lambda: run_of(run, command), replaceable=is_new)
    if from_first_rank(lambda: is_complete(output)):
        log_line(nothing_to_do(output) if not is_new else f"{output}: the new run is complete")
        return published_outcome(output, steps)
    if from_first_rank(lambda: is_published(output)):
        if rank() == 0:
            delete_checkpoints(output)
        barrier()
        return published_outcome(output, steps)
    done = from_first_rank(lambda: steps_done(output))
    selection = Selection(output, done, run.config.patience) if rank() == 0 else None  # on the first rank only
    save = partial(save_weights, run)
    outcome = train_to_the_end(run, selection, save, changed)
    if selection and (outcome.steps == steps or selection.is_over):
        publish(output, save, outcome.steps, selection)
    barrier()
    return outcome


def train_to_the_end(run: Prepared, selection: Selection | None, save: Save, changed: Sequence[str]) -> RunOutcome:
    """Trains and evaluates on the dev files. Only the first rank has a `selection`. The last step has no checkpoint:
    `publish` writes its weights."""
    config, encoder = run.config, run.model.encoder
    every = config.evaluate_every or run.steps_per_epoch

    def open_log(done: int) -> MetricsLog | SilentLog:
        return open_run_log(run.output, config.recipe.steps, done, (opening_line(run, done), *run.lines, *changed))

    def is_evaluated(step: int) -> bool:
        return bool(run.data.dev.sets) and (step % every == 0 or step == config.recipe.steps)

    def ends_after(step: int, log: MetricsLog | SilentLog) -> bool:
        if selection:  # the other ranks wait
            precision = resolve_precision(config.recipe, run.device)
            figures = dev_scores(run.model, run.formulation, run.data.dev.sets, run.device, precision)
            if selection.add(step, step / run.steps_per_epoch, main_score(figures), figures):
                save("best", step, flat(figures))
            log.print_line(selection.last_line)
        return agreed(selection is not None and selection.is_over)

    if config.compile:
        compile_layers(encoder)
    batches = batches_of(config, run.formulation, run.features, pin_memory=run.device.type == "cuda")
    size, pauses = encoder_size(encoder), Pauses(is_evaluated, ends=ends_after)
    steps, stopped_by = train(
        run.model, run.formulation, batches.starting, config, size, run.device, open_log, pauses, keep_last=False
    )
    return RunOutcome(steps, stopped_by, rank() == 0)


# --- before the first step --------------------------------------------------------------------------------------------


def inference_settings_of(recipe: FinetuneRecipe, labels: tuple[str, ...], positions: int) -> InferenceSettings:
    """Returns the recipe's inference settings. Raises `ConfigError` if its sequences are longer than the encoder's
    `positions`."""
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


def read_data(config: FinetuneConfig) -> Data:
    """Reads the files of --train and --dev."""
    recipe = config.recipe
    log_line("Reading " + ", ".join(path.name for path in (*config.train, *config.dev)))
    read = read_records(config.train, recipe.task, config.train_langs, labelled=True)
    records = few(read.records, recipe.examples, recipe.sample) if recipe.examples else read.records
    return Data(read, records, dev_sets(config))


def starting_model(config: FinetuneConfig, records: Sequence[Any]) -> tuple[Pretrained, str]:
    """Returns the model that training starts from, and the fingerprint of its weights."""
    recipe = config.recipe
    if recipe.model == "tiny":
        torch.set_num_threads(1)  # the model is too small to gain by more threads
        start = random_model(train_tokenizer(islice(tokenizer_texts(config, records), MOST_TEXTS)), recipe.seed)
    else:
        start = load_model(recipe.model, recipe.seed, mlm=False)
        start = start._replace(heads=start.heads or foreign_heads(recipe.model))
    weights = fingerprint(start.language_model) if rank() == 0 else ""
    if recipe.method.needs_que_token:
        add_que_token(start.language_model, start.tokenizer, recipe.seed)
    return start, weights


def tokenizer_texts(config: FinetuneConfig, records: Sequence[Any]) -> Iterator[str]:
    """Yields the texts that the encoder reads: the records, as queries for each label and their contexts if the method
    asks for labels, then the translations."""
    recipe, labels = config.recipe, labels_of(records, config.recipe.task)
    for record in records:
        if labels and recipe.method.asks_for_labels:
            ask = pair_queries if isinstance(record, PairExample) else tag_queries
            yield from (text for query in ask(record, labels) for text in (query.query, query.context))
        else:
            yield from texts_of(record)
    yield from read_translations(config.translations, recipe.task, config.translation_langs).texts


class Dev(NamedTuple):
    """The records that choose the best weights."""

    sets: Sequence[DevSet]  # one for each file
    files: Mapping[str, str]  # as `Records.files`
    accounts: Sequence[str]  # as `Records.accounts`


def dev_sets(config: FinetuneConfig) -> Dev:
    if not config.dev:
        return Dev((), {}, ())
    task = config.dev_task or config.recipe.task
    read = read_records(config.dev, task, config.dev_langs, labelled=True)
    if without := [record for record in read.records if isinstance(record, MrcExample) and not record.answer_texts]:
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


def agreed(by_the_first: bool) -> bool:
    """Returns the first rank's value on every rank; the other ranks pass False."""
    return bool(all_reduce_sum(torch.tensor(float(by_the_first))).item())


# --- which weights stay -----------------------------------------------------------------------------------------------


def save_weights(run: Prepared, folder: str, steps: int, scores: dict[str, float]) -> None:
    """Writes the model to this folder of the run."""
    recipe = run_folder.shown_recipe(plain_values(run.config.recipe))
    provenance = Provenance(recipe["model"], recipe, dict(run.data.read.files), steps, commit())
    heads, start = dict(run.model.heads.items()), run.start
    save_finetuned(run.output / folder, start.language_model, start.tokenizer, heads, run.settings, provenance, scores)


def publish(output: Path, save: Save, steps: int, selection: Selection) -> None:
    """Publishes the best weights as model/, and the last ones as last/ if they are others. Deletes the checkpoints,
    which are three times the model's size. May be repeated."""
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


def is_published(output: Path) -> bool:
    """Returns whether the models are complete, so that only checkpoints are left to delete."""
    return (output / "model" / MODEL).is_file() and not (output / "best").exists()


def published_outcome(output: Path, steps: int) -> RunOutcome:
    """Returns the outcome of a run that is complete, after its last evaluation or, without one, `steps`."""
    evaluated = read_evaluations(output / DEV_FILE)
    return RunOutcome(evaluated[-1]["step"] if evaluated else steps, None, rank() == 0)


def delete_checkpoints(output: Path) -> None:
    """Renames the folder first, so that no checkpoint that is deleted in part is taken for a damaged one."""
    doomed = atomic_write.temporary(output / "checkpoints")
    if (output / "checkpoints").exists():
        (output / "checkpoints").rename(doomed)
    tidy_run(output)


def steps_done(output: Path) -> int:
    newest, _ = checkpoint.newest_sound(output / "checkpoints")
    return checkpoint.step_of(newest) if newest else 0


# --- what the run says of itself --------------------------------------------------------------------------------------


def run_of(run: Prepared, command: str) -> dict[str, Any]:
    """Returns the content of run.json."""
    config = run.config
    return {
        "recipe": run_folder.shown_recipe(plain_values(config.recipe)),
        "data": {**run.data.read.files, **run.run_data.files},
        "model": {"weights": run.weights, "tokenizer": run.text_encoder.fingerprint},
        "baseline": run.run_data.fingerprint,
        "selection": {
            "files": dict(run.data.dev.files),
            "every": config.evaluate_every,
            "patience": config.patience,
        },
        "micro_batch_tokens": config.micro_batch_tokens,
        "compile": config.compile,
        "command": command,
    }


def opening_line(run: Prepared, done: int) -> str:
    recipe, all_records, records = run.config.recipe, run.data.read.records, run.data.records
    few_of = f" of {len(all_records):,}" if len(records) < len(all_records) else ""
    work = (
        f"{len(records):,}{few_of} records as {len(run.features):,} {run.formulation.unit}, "
        f"{recipe.batch_size} a step, {recipe.steps:,} steps"
    )
    return run_line("Fine-tuning", recipe, run.model.encoder, run.device, work, done)


def head_line(name: str, is_pretrained: bool) -> str:
    """Says where a head's weights come from: CLISM's and mPMR's few-shot gains need a pre-trained head."""
    return f"  head {name}: {'of the starting model' if is_pretrained else 'new, with random weights'}"


def account_lines(data: Data) -> list[str]:
    """Says what became of all records and labels of the files."""
    return [
        *(f"  --train: {account}" for account in data.read.accounts),
        *(f"  --dev: {account}" for account in data.dev.accounts),
    ]


def loss_lines(data: Data, all_features: Sequence[Any], features: Sequence[Any]) -> list[str]:
    """Counts what was cut or left out of the records. `features`: those of `all_features` to train on."""
    notes = Counter(note for feature in all_features for note in feature.notes)
    words = LOST | NOTED
    lines = [
        f"  {words.get(reason, reason)}: {number:,}"
        for reason, number in (*data.read.flags.items(), *sorted(notes.items()))
    ]
    if empty := len(data.records) - len({feature.record for feature in all_features}):
        lines.append(f"  left out, as the tokenizer leaves nothing of them: {empty:,} records")
    if len(features) < len(all_features):
        lines.append(f"  left out, as their answers were lost: {len(all_features) - len(features):,} sequences")
    return lines
