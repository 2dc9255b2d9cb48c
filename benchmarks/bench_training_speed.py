"""Our trainer beside Hugging Face's `Trainer`: tokens/s, examples/s, MFU, memory, padding, wait for the loader.

    python -m benchmarks.bench_training_speed --anchor-mrc FOLDER --clism FOLDER [--device cuda] [--steps 50]

The folders are datasets such as `polyspan-data demo` makes. `Trainer` needs accelerate, which nothing else here does.
Every side trains the same model with random weights on the same examples, step by step, with the same optimizer, number
of threads, precision and number of loader processes, in a process of its own; its first steps are not counted. Before
that, the loss and the gradient of the first examples are compared, dropout off: the objective has to be the same.

On a GPU the model is as large as XLM-R base with its vocabulary of 250,002, in bf16, and batches are the papers'; on a
CPU it is small. Rows are lengthened by repetition, unless `--as-is`: contexts to 150-200 words and queries to 35-50
(mPMR, A.1), sentences to 1, 2 or 3 times their length. Real contexts vary more, which costs padding.

  ours               packed; tokenised on the way; every step is logged, as `polyspan-train pretrain` does
  Trainer            padded; the losses as one writes them; attention and MLM head are transformers' own, that on all
                     positions; tokenised before, which is not counted
  Trainer by length  the same, and the measured examples sorted by length before: hardly any padding

The model has no dropout of attention probabilities, since ours knows none. Tokens, and the FLOPs of
training/engine/flops.py, are those of the texts: neither padding counts nor logits that no loss reads. CPU
seconds are the training process's and its loader's. Memory is the device's; without one, the process's.
The last two columns say how many times as fast as `Trainer` a token is, by the clock and in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import SequentialSampler
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

from schemas import manifest
from schemas.catalog import SCHEMAS
from schemas.manifest import ShardEntry
from schemas.shards import read_shards, write_shard
from training.data.batches import ClismBatch, pack
from training.data.datasets import open_datasets
from training.data.features import ClismFeatures, WaeFeatures
from training.data.loader import Batches
from training.data.plan import plan_for
from training.data.tokens import TextEncoder
from training.engine.flops import EncoderSize, model_flops, peak_flops
from training.engine.loop import train
from training.engine.metrics_log import MetricsLog
from training.engine.run_setup import resolve_precision
from training.methods.base import EncoderWithHeads, Method
from training.methods.pretraining_tasks import pretraining_task
from training.models.encoder import Encoder
from training.models.folder import Pretrained, Provenance, save_model
from training.models.heads import SpanHead, WaeExtractor
from training.models.tiny import MOST_TEXTS, texts, train_tokenizer
from training.models.tokenizer import add_que_token
from training.pretrain import batches_of, starting_model
from training.recipes.pretraining import CLISM, MPMR_BASE, ClismObjective, PretrainConfig, Recipe, WaeObjective

RECIPES = {"anchor-mrc": MPMR_BASE, "clism": CLISM}
SIDES = {"ours": "ours", "trainer": "Trainer", "by-length": "Trainer by length"}
SIZES = {"cuda": EncoderSize(12, 768, 3072, 250_002), "cpu": EncoderSize(4, 128, 512, 0)}  # 0: the tokenizer's
WIDTH_OF_A_HEAD = {"cuda": 64, "cpu": 32}
UNSPACED = ("ja", "th", "zh")
CHECKED = 16  # examples, whose loss both sides compute in fp32
TOLERANCE = 2e-5  # of the loss and of the gradient's norm


@dataclass(frozen=True)
class Job:
    """The settings that both sides share."""

    workload: str
    data: str
    model: str
    output: str
    device: str
    batch_size: int
    warmup: int  # steps that are not counted
    steps: int
    workers: int
    compile: bool

    @property
    def recipe(self) -> Recipe:
        of = replace(RECIPES[self.workload], model=self.model, batch_size=self.batch_size)
        return replace(of, precision=resolve_precision(of, torch.device(self.device)))


class Cost(NamedTuple):
    """Of the measured steps."""

    seconds: float
    cpu_seconds: float
    waited: float  # seconds, for the loader
    gib: float
    examples: int
    tokens: int
    computed: int  # tokens, with padding
    flops: float


# --- the data and the model -------------------------------------------------------------------------------------------


def prepare(job: Job, source: str, as_is: bool) -> None:
    """Writes the dataset and the model that every side starts from."""
    index = manifest.load(source)
    rows = [row for batch in read_shards(source) for row in batch.to_pylist()]
    if not as_is:
        rows = [lengthened(row, number) for number, row in enumerate(rows)]
    name = "data/part-00000-of-00001.arrow"
    (Path(job.data) / "data").mkdir(parents=True)
    schema = SCHEMAS[index.schema].arrow
    with (Path(job.data) / name).open("wb") as shard:
        info = write_shard(shard, pa.Table.from_pylist(rows, schema), schema)
    index = replace(index, shards=(ShardEntry(name, *info),), rejects=())
    (Path(job.data) / manifest.FILE_NAME).write_text(index.to_json(), encoding="utf-8")

    tokenizer = train_tokenizer(islice(texts([source], pretraining_task(job.recipe).vocabulary_texts), MOST_TEXTS))
    size = SIZES[job.device]
    config = XLMRobertaConfig(
        vocab_size=size.vocabulary or len(tokenizer),
        num_hidden_layers=size.layers,
        hidden_size=size.hidden,
        num_attention_heads=size.hidden // WIDTH_OF_A_HEAD[job.device],
        intermediate_size=size.inner,
        max_position_embeddings=514,
        type_vocab_size=1,
        attention_probs_dropout_prob=0.0,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    start = Pretrained(XLMRobertaForMaskedLM(config), tokenizer, {}, None)
    add_que_token(start.language_model, tokenizer)
    heads = pretraining_task(job.recipe).method(job.recipe.objective).heads(start, 0)
    new = {name: head for name, head in heads.items() if isinstance(head, SpanHead | WaeExtractor)}
    save_model(job.model, start.language_model, tokenizer, new, Provenance("random", {}, {}, 0))


def lengthened(row: dict[str, Any], number: int) -> dict[str, Any]:
    """Its spans stay where they are: copies follow them."""
    if "query_text" in row:
        query = repeated(row["query_text"], row["lang"], 35, 50)
        return row | {"query_text": query, "context_text": repeated(row["context_text"], row["lang"], 150, 200)}
    more = {side: (" " + row[f"{side}_text"]) * (number % 3) for side in ("source", "target")}
    return row | {
        "source_text": row["source_text"] + more["source"],
        "masked_source_text": row["masked_source_text"] + more["source"],
        "target_text": row["target_text"] + more["target"],
    }


def repeated(text: str, lang: str, least: int, most: int) -> str:
    """From `least` to `most` words, unless it has more; in scripts without blanks two code points are a word."""
    words = [text[at : at + 2] for at in range(0, len(text), 2)] if lang in UNSPACED else text.split(" ")
    times = -(-least // len(words))
    return text if len(words) >= most else ("" if lang in UNSPACED else " ").join((words * times)[:most])


# --- ours -------------------------------------------------------------------------------------------------------------


class Ours(NamedTuple):
    """What `training.pretrain` puts together."""

    config: PretrainConfig
    model: EncoderWithHeads
    method: Method
    batches: Batches


def ours(job: Job) -> Ours:
    config = PretrainConfig(job.recipe, data=(job.data,), output=job.output, loader_workers=job.workers)
    task = pretraining_task(config.recipe)
    start, _ = starting_model(config)
    encoder = Encoder(cast(PreTrainedModel, start.language_model.base_model))
    batches = batches_of(
        config,
        open_datasets(config.data, task.texts),
        TextEncoder(start.tokenizer),
        encoder.max_tokens,
        job.device == "cuda",
    )
    method = task.method(config.recipe.objective)
    model = EncoderWithHeads(encoder, method.heads(start, config.recipe.seed)).to(job.device)
    return Ours(config, model, method, batches)


def measure_ours(job: Job) -> Cost:
    config, model, method, batches = ours(job)
    if job.compile:
        for layer in model.encoder.layers:
            layer.compile()
    clock = Clock(job)

    class Timed(MetricsLog):
        def write(self, step: int, figures: Mapping[str, float]) -> None:
            super().write(step, figures)
            clock.waited += figures["loader_wait"] * figures["seconds"]
            rows.append(dict(figures))
            if clock.step_is_done():
                raise Enough  # before the last checkpoint

    def log(done: int) -> MetricsLog:
        return Timed(Path(job.output), config.recipe.steps, done)

    rows: list[dict[str, float]] = []
    with suppress(Enough):
        train(model, method, batches.starting, config, size_of_model(job), torch.device(job.device), log)
    measured = rows[job.warmup :]
    work = work_of(job, features_of(job)[job.warmup :])
    computed = sum(row["tokens"] / (1 - row["padding"]) for row in measured)
    assert work["tokens"] == sum(row["tokens"] for row in measured), "not the examples that were counted"
    return clock.found(work | {"computed": round(computed)})


class Enough(Exception):
    pass


# --- Hugging Face's ---------------------------------------------------------------------------------------------------


def loaded_heads(folder: str, head: str, modules: dict[str, nn.Module]) -> None:
    """The new heads' first weights, from `heads.safetensors`."""
    tensors = load_file(Path(folder) / "heads.safetensors")
    for name, module in modules.items():
        start = f"{head}.{name}."
        module.load_state_dict(
            {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
        )


class PaddedWae(nn.Module):
    """mPMR, 2.1. N sequences, L tokens, D hidden size."""

    def __init__(self, folder: str, objective: WaeObjective) -> None:
        super().__init__()
        self.encoder = AutoModelForMaskedLM.from_pretrained(folder).base_model
        hidden = self.encoder.config.hidden_size
        self.inner = nn.Linear(hidden, objective.extractor_inner)
        self.outer = nn.Linear(objective.extractor_inner, hidden)
        self.dropout = nn.Dropout(objective.extractor_dropout)
        loaded_heads(folder, "wae", {"inner": self.inner, "outer": self.outer})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, context: Tensor, spans: Tensor) -> dict[str, Tensor]:
        hidden_NLD = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        end_NLD = self.outer(self.dropout(F.gelu(self.inner(hidden_NLD))))
        scores_NLL = hidden_NLD @ end_NLD.mT
        place_L = torch.arange(input_ids.shape[1], device=input_ids.device)
        allowed_NL = (context[:, :1] <= place_L) & (place_L < context[:, 1:]) | (place_L == 0)
        valid_NLL = (allowed_NL.unsqueeze(2) & allowed_NL.unsqueeze(1)).triu()
        labels_NLL = torch.zeros_like(scores_NLL)
        labels_NLL[spans.unbind(dim=1)] = 1
        total = F.binary_cross_entropy_with_logits(scores_NLL, labels_NLL, valid_NLL, reduction="sum")
        return {"loss": total / valid_NLL.sum()}


@dataclass
class WaePadding:
    tokenizer: PreTrainedTokenizerBase

    def __call__(self, examples: Sequence[WaeFeatures]) -> dict[str, Tensor]:
        batch = self.tokenizer.pad({"input_ids": [list(each.ids) for each in examples]}, return_tensors="pt")
        spans = [
            (number, *answer)
            for number, each in enumerate(examples)
            for answer in (*each.answers, *[(0, 0)] * each.answerable)
        ]
        context = torch.tensor([each.context for each in examples])
        return {**batch, "context": context, "spans": torch.tensor(spans).reshape(-1, 3)}


class PaddedClism(nn.Module):
    """CLISM, 3.1 to 3.3. N sequences, L tokens, D hidden size, Q questions."""

    def __init__(self, folder: str, objective: ClismObjective) -> None:
        super().__init__()
        self.language_model = AutoModelForMaskedLM.from_pretrained(folder)
        self.temperature = objective.cacr_temperature
        hidden = self.language_model.config.hidden_size
        self.start, self.end = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        loaded_heads(folder, "span", {"start.weight": self.start, "end.weight": self.end})

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        sides: Tensor,  # (N, 2, 2): [start, end) of the source and the target
        source_ids: Tensor,
        source_mask: Tensor,
        source_side: Tensor,
        questions: Tensor,  # (Q, 4): the sequence, the place of [QUE], the answer's first and last token
    ) -> dict[str, Tensor]:
        output = self.language_model(input_ids, attention_mask, labels=labels, output_hidden_states=True)
        hidden_NLD = output.hidden_states[-1]
        sequence_Q, que_Q, first_Q, last_Q = questions.unbind(dim=1)
        que_QD, hidden_QLD = hidden_NLD[sequence_Q, que_Q], hidden_NLD[sequence_Q]
        span = torch.zeros((), device=input_ids.device)
        for weight, answer_Q in ((self.start, first_Q), (self.end, last_Q)):
            scores_QL = (hidden_QLD @ weight(que_QD).unsqueeze(2)).squeeze(2).float()
            span = span + F.cross_entropy(scores_QL.masked_fill(attention_mask[sequence_Q] == 0, -torch.inf), answer_Q)

        plain_NLD = self.language_model.base_model(source_ids, source_mask).last_hidden_state
        source_ND = mean_of(plain_NLD, source_side)
        masked_ND, target_ND = mean_of(hidden_NLD, sides[:, 0]), mean_of(hidden_NLD, sides[:, 1])
        own_N = torch.arange(len(input_ids), device=input_ids.device)
        cacr = torch.zeros((), device=input_ids.device)
        for a_ND, b_ND in ((target_ND, masked_ND), (source_ND, masked_ND), (target_ND, source_ND)):
            cosines_NN = F.normalize(a_ND, dim=1) @ F.normalize(b_ND, dim=1).T
            cacr = cacr + F.cross_entropy(cosines_NN.float() / self.temperature, own_N)
        return {"loss": span + cacr + output.loss}


def mean_of(hidden_NLD: Tensor, side_N2: Tensor) -> Tensor:
    place_L = torch.arange(hidden_NLD.shape[1], device=hidden_NLD.device)
    inside_NL = ((side_N2[:, :1] <= place_L) & (place_L < side_N2[:, 1:])).float()
    return (inside_NL.unsqueeze(1) @ hidden_NLD.float()).squeeze(1) / inside_NL.sum(dim=1, keepdim=True)


class ClismPadding:
    """transformers' own collator pads and masks. It knows beforehand which tokens of each example to leave alone."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, objective: ClismObjective, examples: Iterable[ClismFeatures]
    ) -> None:
        special = frozenset(tokenizer.all_special_ids)
        self.tokenizer, self.kept = tokenizer, {each.id: kept(each, special) for each in examples}
        self.mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=objective.mlm_share)

    def __call__(self, examples: Sequence[ClismFeatures]) -> dict[str, Tensor]:
        batch = self.mask([{"input_ids": list(each.ids), "special_tokens_mask": self.kept[each.id]}
                           for each in examples])  # fmt: skip
        sources = self.tokenizer.pad({"input_ids": [list(each.source_only) for each in examples]}, return_tensors="pt")
        questions = [
            (number, que, *answer)
            for number, each in enumerate(examples)
            for que, answer in zip(each.que, each.answers, strict=True)
        ]
        return {
            **batch,
            "sides": torch.tensor([(each.source, each.target) for each in examples]),
            "source_ids": sources["input_ids"],
            "source_mask": sources["attention_mask"],
            "source_side": torch.tensor([(1, len(each.source_only) - 1) for each in examples]),
            "questions": torch.tensor(questions),
        }


def kept(features: ClismFeatures, special: frozenset[int]) -> list[int]:
    """1 for what MLM never predicts: special tokens, [QUE], answers."""
    answers = {place for first, last in features.answers for place in range(first, last + 1)}
    return [int(token in special or place in answers) for place, token in enumerate(features.ids)]


def padded_side(job: Job, examples: Iterable[Any]) -> tuple[nn.Module, Callable[[Sequence[Any]], dict[str, Tensor]]]:
    tokenizer = AutoTokenizer.from_pretrained(job.model)
    objective = job.recipe.objective
    if isinstance(objective, ClismObjective):
        return PaddedClism(job.model, objective), ClismPadding(tokenizer, objective, examples)
    return PaddedWae(job.model, objective), WaePadding(tokenizer)


def measure_trainer(job: Job, by_length: bool) -> Cost:
    steps = features_of(job)
    if by_length:
        measured = sorted((each for step in steps[job.warmup :] for each in step), key=lambda each: len(each.ids))
        batches = [measured[at : at + job.batch_size] for at in range(0, len(measured), job.batch_size)]
        random.Random(0).shuffle(batches)
        steps[job.warmup :] = batches
    model, collate = padded_side(job, chain(*steps))
    clock = Clock(job)

    class Timed(Trainer):
        def _get_train_sampler(self, *_: Any) -> SequentialSampler:  # the order of the steps above
            return SequentialSampler(examples)

        def get_batch_samples(self, *arguments: Any, **others: Any) -> Any:
            begun = time.perf_counter()
            samples = super().get_batch_samples(*arguments, **others)
            clock.waited += time.perf_counter() - begun
            return samples

    class Tick(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step_is_done()

    recipe = job.recipe
    arguments = TrainingArguments(
        output_dir=job.output,
        max_steps=job.warmup + job.steps,
        per_device_train_batch_size=job.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_gradient_norm,
        bf16=recipe.precision == "bf16",
        use_cpu=job.device == "cpu",
        torch_compile=job.compile,
        dataloader_num_workers=job.workers,
        dataloader_pin_memory=job.device == "cuda",
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    more = steps[: 2 * job.workers + 2]  # for the loader to go on with, as ours does
    examples: Any = list(chain(*steps, *more))
    Timed(model, arguments, collate, train_dataset=examples, callbacks=[Tick()]).train()
    return clock.found(work_of(job, steps[job.warmup :]))


# --- measuring --------------------------------------------------------------------------------------------------------


class Clock:
    """Returns the seconds of the steps after the warm-up."""

    def __init__(self, job: Job) -> None:
        self.job, self.done, self.waited = job, 0, 0.0
        self.marks: list[tuple[float, float, float]] = []
        self.gib = 0.0

    def step_is_done(self) -> bool:
        """Returns True after the last."""
        self.done += 1
        last = self.done == self.job.warmup + self.job.steps
        if self.done == self.job.warmup or last:
            if self.job.device == "cuda":
                torch.cuda.synchronize()
            self.marks.append((time.perf_counter(), cpu_seconds(), self.waited))
        if last:
            kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.gib = torch.cuda.max_memory_allocated() / 2**30 if self.job.device == "cuda" else kib / 2**20
        return last

    def found(self, work: Mapping[str, Any]) -> Cost:
        seconds, cpu, waited = (after - before for before, after in zip(*self.marks, strict=True))
        return Cost(seconds, cpu, waited, self.gib, **work)


def cpu_seconds() -> float:
    """Of this process and of its loader's, which on other systems than Linux are seen only once they have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in multiprocessing.active_children():
        stat = Path(f"/proc/{child.pid}/stat")
        if stat.exists():
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            total += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total


def features_of(job: Job) -> list[list[Any]]:
    """The examples of every step, as ours draws them."""
    recipe, task = job.recipe, pretraining_task(job.recipe)
    rows = open_datasets([job.data], task.texts)
    encoder = TextEncoder(AutoTokenizer.from_pretrained(job.model))
    collator = task.collator(recipe, encoder, task.limits(recipe.objective))
    plan = plan_for(rows, recipe.batch_size, recipe.seed)
    made: dict[int, Any] = {}
    steps = []
    for step in range(job.warmup + job.steps):
        drawn = plan.batch(step).rows.tolist()
        for row in drawn:
            if row not in made:
                made[row] = collator.features(rows[row])
        steps.append([made[row] for row in drawn if not isinstance(made[row], str)])
    return steps


def size_of_model(job: Job) -> EncoderSize:
    of = AutoConfig.from_pretrained(job.model)
    return EncoderSize(of.num_hidden_layers, of.hidden_size, of.intermediate_size, of.vocab_size)


def work_of(job: Job, steps: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """`computed` is of padded batches."""
    tokens, computed, flops = 0, 0, 0.0
    objective, size = job.recipe.objective, size_of_model(job)
    special = frozenset(AutoTokenizer.from_pretrained(job.model).all_special_ids)
    for examples in steps:
        passes = [pack([each.ids for each in examples])]
        predicted = 0.0
        if isinstance(objective, ClismObjective):
            passes.append(pack([each.source_only for each in examples]))
            predicted = objective.mlm_share * sum(kept(each, special).count(0) for each in examples)
        tokens += sum(each.tokens for each in passes)
        computed += sum(each.longest * each.sequences for each in passes)
        flops += model_flops(size, passes, round(predicted))
    return {"examples": sum(map(len, steps)), "tokens": tokens, "computed": computed, "flops": flops}


# --- the same objective? ----------------------------------------------------------------------------------------------


def check(job: Job) -> dict[str, list[float]]:
    """Returns the loss of the first examples and the norm of its gradient, ours and the padded one's, in fp32."""
    job = replace(job, batch_size=min(job.batch_size, CHECKED), workers=0)
    examples = features_of(replace(job, warmup=0, steps=1))[0]
    _, model, method, batches = ours(job)
    batch = next(batches.starting(0)).micro_batches[0]
    assert batch.example_ids == tuple(each.id for each in examples), "not the same examples"
    model.eval()
    losses = method.losses(model, batch.to(job.device), None)
    found = torch.stack([method.weights[name] * loss.total / loss.count for name, loss in losses.items()]).sum()
    padded, collate = padded_side(job, examples)
    inputs = collate(examples)
    if isinstance(batch, ClismBatch):  # the same masks
        labels_T = torch.full_like(batch.inputs.ids_T, -100)
        labels_T[batch.masked_M] = batch.labels_M
        inputs["input_ids"], _ = batch.inputs.padded(collate.tokenizer.pad_token_id)  # type: ignore[attr-defined]
        inputs["labels"], _ = replace(batch.inputs, ids_T=labels_T).padded(-100)
    expected = padded.to(job.device).eval()(**{name: each.to(job.device) for name, each in inputs.items()})["loss"]
    return {"loss": [found.item(), expected.item()], "gradient": [norm(model, found), norm(padded, expected)]}


def norm(model: nn.Module, loss: Tensor) -> float:
    torch.autograd.backward(loss)
    return nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None]).item()


# --- the table --------------------------------------------------------------------------------------------------------


def run(part: str, job: Job, threads: int, *more: str) -> Any:
    """What a part says, in a process of its own, or None and a line why not."""
    environment = {"TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "0", **os.environ}
    environment |= {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "benchmarks.bench_training_speed", "--part", part, "--job"]
    with tempfile.TemporaryDirectory() as output:
        job = replace(job, output=output)
        command += [json.dumps(asdict(job)), *more]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"  {part} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def compare(workload: str, source: str, options: argparse.Namespace) -> None:
    """Prints one workload's table."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            workload,
            data=f"{folder}/data",
            model=f"{folder}/model",
            output="",
            device=options.device,
            batch_size=options.batch_size or (RECIPES[workload].batch_size if options.device == "cuda" else 16),
            warmup=max(1, options.warmup),
            steps=options.steps,
            workers=options.workers,
            compile=options.compile,
        )
        print(f"\n{workload}: {job.recipe.precision}, {job.batch_size} examples a step, {job.steps} steps after "
              f"{job.warmup}", flush=True)  # fmt: skip
        if not run("prepare", job, options.threads, "--source", source, *["--as-is"] * options.as_is):
            return
        size = size_of_model(job)
        print(f"a model of {size.layers} layers of {size.hidden}, {size.vocabulary:,} tokens")
        checked = run("check", job, options.threads) or {}
        for what, (here, there) in checked.items():
            print(f"{what + ' of the first examples:':32}ours {here:.7g}, padded {there:.7g}", flush=True)
            if not abs(here - there) <= TOLERANCE * abs(there):
                raise SystemExit("These are two objectives: nothing to compare")
        costs: dict[str, list[Cost]] = {side: [] for side in options.only}
        for _ in range(options.rounds):
            for side in options.only:
                if cost := run(side, job, options.threads):
                    costs[side].append(Cost(**cost))
    best = {side: min(each, key=lambda cost: cost.seconds) for side, each in costs.items() if each}
    print(f"{'':18}{'tokens/s':>10}{'examples/s':>12}{'GFLOP/s':>10}{'MFU':>7}{'GiB':>8}{'padding':>9}{'waits':>7}"
          f"{'CPU ms/example':>16}{'wall':>7}{'CPU':>7}")  # fmt: skip
    for side, cost in best.items():
        print(line_of(side, cost, best.get("trainer"), options.device))


def line_of(side: str, cost: Cost, beside: Cost | None, device: str) -> str:
    flops = cost.flops / cost.seconds
    peak = peak_flops(torch.cuda.get_device_name()) if device == "cuda" else None
    wall = cpu = ""
    if beside:
        wall = f"{beside.seconds / beside.tokens / (cost.seconds / cost.tokens):.2f}x"
        cpu = f"{beside.cpu_seconds / beside.tokens / (cost.cpu_seconds / cost.tokens):.2f}x"
    return (
        f"{SIDES[side]:18}{cost.tokens / cost.seconds:10,.0f}{cost.examples / cost.seconds:12,.1f}{flops / 1e9:10,.1f}"
        f"{f'{flops / peak:.1%}' if peak else '':>7}{cost.gib:8.2f}{1 - cost.tokens / cost.computed:9.1%}"
        f"{cost.waited / cost.seconds:7.1%}{1e3 * cost.cpu_seconds / cost.examples:16.1f}{wall:>7}{cpu:>7}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for workload in RECIPES:
        parser.add_argument(f"--{workload}", metavar="FOLDER", help="a dataset; without it that part is left out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="that are measured; default: 50 on a GPU, 8 on a CPU")
    parser.add_argument("--warmup", type=int, help="steps before them, at least 1; default: 10 on a GPU, 2 on a CPU")
    parser.add_argument("--batch-size", type=int, default=0, help="default: the papers' on a GPU, 16 on a CPU")
    parser.add_argument("--threads", type=int, help="of each training process; default: 8 with a GPU, 1 without")
    parser.add_argument("--workers", type=int, help="loader processes; default: 4 with a GPU, 0 without")
    parser.add_argument("--rounds", type=int, default=1, help="of which each side's fastest counts")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), help="only these sides")
    parser.add_argument("--as-is", action="store_true", help="leave the rows as long as they are")
    parser.add_argument("--compile", action="store_true", help="compile with torch, all sides")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # a child's
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        part(options)
        return
    on_gpu = options.device == "cuda"
    for name, on, off in (("steps", 50, 8), ("warmup", 10, 2), ("threads", 8, 1), ("workers", 4, 0)):
        if getattr(options, name) is None:
            setattr(options, name, on if on_gpu else off)
    sources = {name: source for name in RECIPES if (source := getattr(options, name.replace("-", "_")))}
    if not sources:
        parser.error("expected a dataset: --anchor-mrc FOLDER, --clism FOLDER or both")
    where = torch.cuda.get_device_name() if on_gpu else "a CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__} on {where}; each process has "
          f"{options.threads} threads and {options.workers} loader processes")  # fmt: skip
    for workload, source in sources.items():
        compare(workload, source, options)


def part(options: argparse.Namespace) -> None:
    """One process's part; its last line of output is the result."""
    job = Job(**json.loads(options.job))
    found: Any = True
    if options.part == "prepare":
        prepare(job, options.source, options.as_is)
    elif options.part == "check":
        found = check(job)
    elif options.part == "ours":
        found = measure_ours(job)._asdict()
    else:
        found = measure_trainer(job, by_length=options.part == "by-length")._asdict()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
