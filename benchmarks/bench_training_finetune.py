"""Compares fine-tuning and prediction with Hugging Face's tools: windows, training steps, answers, memory.

    python -m benchmarks.bench_training_finetune                                     # everything, some ten minutes
    python -m benchmarks.bench_training_finetune --only windows prediction --rounds 1
    python -m benchmarks.bench_training_finetune --pipeline-python OTHER/python      # a Python with transformers 4

On SQuAD's dev questions and XQuAD's, from ../shared/data, with a model of four layers of 128 and random weights. Every
side runs in a process of its own, on one thread, as often as --rounds says, in turns; its CPU seconds count, and the
median of them. Loading is not counted.

  windows     questions to ids, offsets and places of answers. Hugging Face's fast tokenizer is given 1,000 questions at
              once (`truncation="only_second"`, `stride`, `return_overflowing_tokens`, `return_offsets_mapping`), and
              the places are sought in Python, as examples of its users do. Ids have to be equal, or the benchmark
              stops. Ours begins with an empty cache of words, and tokenises a context once for all of its questions.
  steps       the training loop on the windows of SQuAD, packed, beside `Trainer` (needs accelerate), padded to the
              batch's longest window: same windows, order, optimizer and batch, fp32. "By length": its windows also
              sorted beforehand. Loss and gradient of the first windows have to be equal: each is given to their model
              alone, for it lets padding take part in its softmax, and halved here, as there.
  prediction  questions to answers: ours, batches of similar length; theirs, padded batches of 8 in the order of the
              data, and the best of 20 starts and 20 ends of each window; and their question-answering pipeline, which
              transformers 5 has no more (`batch_size=8`), where --pipeline-python is given.
  memory      the peak of the process that answers all 10,570 questions of SQuAD's dev set, and a tenth of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import SequentialSampler
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    XLMRobertaConfig,
    XLMRobertaForQuestionAnswering,
)

from benchmarks.bench_training_tokens import NTREX, trained
from schemas.mrc import MrcExample
from training.data.task_batches import MrcWindow
from training.data.tokens import TextEncoder
from training.data.windows import question_windows
from training.engine.flops import EncoderSize
from training.engine.loop import train
from training.engine.metrics_log import MetricsLog
from training.inference.predictor import Predictor, load_predictor, predict
from training.methods.feature_batches import batches_of
from training.models.tiny import MOST_TEXTS, train_tokenizer
from training.recipes.finetuning import PLAIN_QA, FinetuneConfig, InferenceSettings
from training.recipes.methods import Plain
from training.tasks.catalog import TASKS

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "qa"
SQUAD = SHARED / "squad" / "dev-v1.1.rebuilt.json"
LANGS = ("en", "de", "el", "es", "hi", "ru", "th", "tr", "vi", "zh")  # not ar: the tokenizer knows few of its letters
VOCABULARY = 64_000  # of the tokenizer that windows are timed with; the model has training.models.tiny's
LAYERS, HIDDEN, INNER, HEADS = 4, 128, 512, 4
SHARP = 50  # times the usual size of the head's first weights, so that no two answers are as good
READING = InferenceSettings(Plain(), "qa", max_query_tokens=124)  # the longest has fewer; Hugging Face cuts none
CPU = torch.device("cpu")
AT_ONCE = 1_000  # questions that Hugging Face's tokenizer is given
PADDED = 8  # windows in a padded batch of prediction
BEST = 20
CHECKED = 32  # windows whose loss is compared
TOLERANCE = 2e-5
SIDES = {
    "windows": {"ours": "polyspan", "theirs": "fast tokenizer"},
    "steps": {"ours": "polyspan", "theirs": "Trainer", "by-length": "Trainer, by length"},
    "prediction": {"ours": "polyspan", "theirs": "padded batches of 8", "pipeline": "pipeline, batch_size=8"},
}


# --- the data and the model -------------------------------------------------------------------------------------------


def questions(name: str, count: int = 0) -> list[MrcExample]:
    """All of them, or those of contexts from everywhere, `count` or a few more."""
    if name == "squad":
        found = TASKS["squad"].read(SQUAD, None)[0]
    else:
        found = [
            each for lang in LANGS for each in TASKS["xquad"].read(SHARED / "xquad" / f"xquad.{lang}.json", lang)[0]
        ]
    if not count:
        return found
    contexts = [list(group) for _, group in groupby(found, key=lambda each: each.context)]
    step = max(1, len(found) // count)
    return [each for group in contexts[::step] for each in group]


def prepare(folder: Path) -> None:
    """The tokenizer and the model that all sides load."""
    trained(folder, VOCABULARY).save_pretrained(folder / "tokenizer")
    records = [*questions("squad", 1_000), *questions("xquad", 1_000)]
    tokenizer = train_tokenizer(islice((text for each in records for text in (each.query, each.context)), MOST_TEXTS))
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=514,
        type_vocab_size=1,
        attention_probs_dropout_prob=0.0,  # ours knows none
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = XLMRobertaForQuestionAnswering(config)
    with torch.no_grad():
        model.qa_outputs.weight.mul_(SHARP)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def predictor(folder: Path) -> Predictor:
    found = load_predictor(folder / "model", CPU)
    formulation: Any = found.formulation
    return found._replace(formulation=replace(formulation, settings=READING), settings=READING)


# --- windows ----------------------------------------------------------------------------------------------------------


class Theirs(NamedTuple):
    """A window as Hugging Face's tokenizer makes it."""

    record: int
    ids: list[int]
    offsets: list[tuple[int, int] | None]  # None outside the context
    answer: tuple[int, int]  # first and last token; [CLS] where the window has none


def their_windows(tokenizer: Any, records: Sequence[MrcExample]) -> Iterator[Theirs]:
    for base in range(0, len(records), AT_ONCE):
        some = records[base : base + AT_ONCE]
        encoded = tokenizer(
            [each.query for each in some],
            [each.context for each in some],
            truncation="only_second",
            max_length=READING.max_tokens,
            stride=READING.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        for window, at in enumerate(encoded["overflow_to_sample_mapping"]):
            sides = encoded.sequence_ids(window)
            pairs = zip(sides, encoded["offset_mapping"][window], strict=True)
            offsets = [pair if side == 1 else None for side, pair in pairs]
            answers = some[at].answers
            answer = place(offsets, *answers[0]) if answers else (0, 0)
            yield Theirs(base + at, encoded["input_ids"][window], offsets, answer)


def place(offsets: Sequence[tuple[int, int] | None], start_char: int, end_char: int) -> tuple[int, int]:
    """Returns the first and last token of the answer, found from the context's ends inwards."""
    inside = [at for at, pair in enumerate(offsets) if pair is not None]
    first, last = inside[0], inside[-1]
    if offsets[first][0] > start_char or offsets[last][1] < end_char:  # type: ignore[index]
        return 0, 0
    while first < inside[-1] and offsets[first + 1][0] <= start_char:  # type: ignore[index]
        first += 1
    while last > inside[0] and offsets[last - 1][1] >= end_char:  # type: ignore[index]
        last -= 1
    return first, last


def windows_of(side: str, folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    records = questions(name)
    if side == "ours":
        encoder = TextEncoder(tokenizer)
        seconds, made = timed(lambda: question_windows(records, encoder, READING))
    else:
        seconds, made = timed(lambda: list(their_windows(tokenizer, records)))
    return {"cpu": seconds, "questions": len(records), "windows": len(made)}


def check_windows(folder: Path, name: str) -> dict[str, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    records = questions(name)
    ours = question_windows(records, TextEncoder(tokenizer), READING)
    theirs = list(their_windows(tokenizer, records))
    same = [(a.record, a.ids.tolist()) == (b.record, b.ids) for a, b in zip(ours, theirs, strict=False)]
    places = sum((a.answers[:1] or ((0, 0),))[0] == b.answer for a, b in zip(ours, theirs, strict=False))
    return {"equal": len(ours) == len(theirs) and all(same), "windows": len(ours), "same places": places}


# --- training steps ---------------------------------------------------------------------------------------------------


class Enough(Exception):
    pass


class Clock:
    """Returns the CPU seconds of the steps after the warm-up."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.at = {options.warmup: 0.0, options.warmup + options.steps: 0.0}
        self.done = 0

    def step_is_done(self) -> bool:
        """Returns True after the last."""
        self.done += 1
        if self.done in self.at:
            self.at[self.done] = time.process_time()
        return self.done == max(self.at)

    @property
    def seconds(self) -> float:
        return self.at[max(self.at)] - self.at[min(self.at)]


def training(folder: Path, options: argparse.Namespace) -> tuple[Predictor, FinetuneConfig, list[MrcWindow], Any]:
    found = predictor(folder)
    steps = options.warmup + options.steps
    recipe = replace(PLAIN_QA, batch_size=options.batch_size, steps=steps, precision="fp32")
    windows = found.formulation.features(questions("squad", 4 * steps * options.batch_size))
    config = FinetuneConfig(recipe, output=str(folder / f"run-{os.getpid()}"))
    return found, config, windows, batches_of(config, found.formulation, windows, pin_memory=False)


def in_order(windows: Sequence[MrcWindow], batches: Any, steps: int) -> list[list[MrcWindow]]:
    """Yields the windows of each step."""
    named = {each.id: each for each in windows}
    return [[named[name] for name in each.micro_batches[0].example_ids] for each in islice(batches.starting(0), steps)]


def steps_of(side: str, folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    found, config, windows, batches = training(folder, options)
    clock = Clock(options)
    work = in_order(windows, batches, options.warmup + options.steps)
    if side == "ours":

        class Timed(MetricsLog):
            def write(self, step: int, figures: Mapping[str, float]) -> None:
                super().write(step, figures)
                if clock.step_is_done():
                    raise Enough  # before the checkpoint

        def log(done: int) -> MetricsLog:
            return Timed(Path(config.output), config.recipe.steps, done)

        Path(config.output).mkdir()
        size = EncoderSize(LAYERS, HIDDEN, INNER, 0)
        with suppress(Enough):
            train(found.model, found.formulation, batches.starting, config, size, CPU, log)
    else:
        if side == "by-length":
            counted, size = list(chain(*work[options.warmup :])), options.batch_size
            counted.sort(key=lambda each: len(each.ids))
            work[options.warmup :] = [counted[at : at + size] for at in range(0, len(counted), size)]
        their_steps(folder, config, work, clock)
    lengths = [[len(each.ids) for each in step] for step in work[options.warmup :]]
    padding = 0.0 if side == "ours" else 1 - sum(map(sum, lengths)) / sum(len(each) * max(each) for each in lengths)
    return {"cpu": clock.seconds, "windows": sum(map(len, lengths)), "padding": padding}


def their_steps(folder: Path, config: FinetuneConfig, work: Sequence[Sequence[MrcWindow]], clock: Clock) -> None:
    examples: Any = [as_inputs(each) for step in work for each in step]

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> SequentialSampler:
            return SequentialSampler(examples)

    class Tick(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step_is_done()

    recipe = config.recipe
    arguments = TrainingArguments(
        output_dir=config.output,
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_gradient_norm,
        use_cpu=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    model = AutoModelForQuestionAnswering.from_pretrained(folder / "model")
    collate = DataCollatorWithPadding(AutoTokenizer.from_pretrained(folder / "model"))
    InOrder(model, arguments, collate, train_dataset=examples, callbacks=[Tick()]).train()


def as_inputs(window: MrcWindow) -> dict[str, Any]:
    first, last = (window.answers or ((0, 0),))[0]
    return {"input_ids": window.ids.tolist(), "start_positions": first, "end_positions": last}


def check_steps(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Returns loss and norm of the gradient of the first windows, without dropout."""
    found, _, windows, _ = training(folder, options)
    some, padded = windows[:CHECKED], AutoModelForQuestionAnswering.from_pretrained(folder / "model").eval()
    loss = found.formulation.losses(found.model, found.formulation.batch(some), None)["qa"]
    here = loss.total / loss.count / 2
    alone = [{name: torch.tensor([value]) for name, value in as_inputs(each).items()} for each in some]
    there = torch.stack([padded(**each).loss for each in alone]).mean()
    return {"loss": [here.item(), there.item()], "gradient": [norm(found.model, here), norm(padded, there)]}


def norm(model: nn.Module, loss: torch.Tensor) -> float:
    torch.autograd.backward(loss)
    return nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None]).item()


# --- prediction -------------------------------------------------------------------------------------------------------


def prediction_of(side: str, folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    records = questions(name, options.questions)
    if side == "pipeline":
        return pipeline(folder, records, options.pipeline_python)
    if side == "ours":
        found = predictor(folder)
        seconds, predictions = timed(lambda: predict(found.model, found.formulation, records, CPU))
        spans = [each.spans[0] for each in predictions]
        answers = [(each.start_char, each.end_char) for each in spans]
    else:
        tokenizer = AutoTokenizer.from_pretrained(folder / "model")
        model = AutoModelForQuestionAnswering.from_pretrained(folder / "model").eval()
        seconds, answers = timed(lambda: their_answers(model, tokenizer, records))
    return {"cpu": seconds, "questions": len(records), "answers": answers, "peak": peak_mib()}


def their_answers(model: Any, tokenizer: Any, records: Sequence[MrcExample]) -> list[tuple[int, int]]:
    windows = list(their_windows(tokenizer, [replace(each, answers=()) for each in records]))
    best: list[tuple[float, tuple[int, int]]] = [(-math.inf, (0, 0))] * len(records)
    with torch.no_grad():
        for base in range(0, len(windows), PADDED):
            some = windows[base : base + PADDED]
            output = model(**tokenizer.pad({"input_ids": [each.ids for each in some]}, return_tensors="pt"))
            both = zip(some, output.start_logits.numpy(), output.end_logits.numpy(), strict=True)
            for window, start, end in both:
                spans = [best[window.record], *spans_of(window, start, end)]
                best[window.record] = max(spans, key=lambda each: each[0])
    return [answer for _, answer in best]


def spans_of(window: Theirs, start: np.ndarray, end: np.ndarray) -> Iterator[tuple[float, tuple[int, int]]]:
    offsets, length = window.offsets, len(window.offsets)
    lasts = np.argsort(end)[: -BEST - 1 : -1].tolist()
    for first in np.argsort(start)[: -BEST - 1 : -1].tolist():
        for last in lasts:
            if last >= length or first > last or last - first >= READING.max_answer_tokens:
                continue
            if (one := offsets[first]) is not None and (other := offsets[last]) is not None:
                yield float(start[first] + end[last]), (one[0], other[1])


def pipeline(folder: Path, records: Sequence[MrcExample], python: str) -> dict[str, Any]:
    asked = folder / "asked.jsonl"
    rows = ({"question": each.query, "context": each.context} for each in records)
    asked.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    script = Path(__file__).with_name("hf_question_answering.py")
    command = [python, str(script), "time", "--model", str(folder / "model"), "--questions", str(asked)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise SystemExit((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return {"questions": len(records), **json.loads(done.stdout.splitlines()[-1])}


def memory_of(side: str, folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    found, records = predictor(folder), questions(name, int(side))
    before = peak_mib()
    predict(found.model, found.formulation, records, CPU)
    return {"questions": len(records), "before": before, "peak": peak_mib()}


# --- measuring --------------------------------------------------------------------------------------------------------


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what it returns."""
    begun = time.process_time()
    found = function()
    return time.process_time() - begun, found


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def environment() -> dict[str, str]:
    one = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **one}


def run(part: str, side: str, folder: Path, name: str = "squad") -> Any:
    """What a side says, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_training_finetune", *sys.argv[1:]]
    command += ["--side", part, side, str(folder), name]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{part}, {side} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def rounds(part: str, folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Of each side the round whose CPU time is the median."""
    sides = [each for each in SIDES[part] if each != "pipeline" or options.pipeline_python]
    found: dict[str, list[Any]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            found[side].append(run(part, side, folder, name))
    return {side: sorted(each, key=lambda one: one["cpu"])[len(each) // 2] for side, each in found.items()}


def table(part: str, what: str, found: Mapping[str, Any], more: Callable[[Any], str]) -> None:
    slowest = found["theirs"]["cpu"] / found["theirs"][what]
    for side, each in found.items():
        cost = each["cpu"] / each[what]
        print(f"  {SIDES[part][side]:24}{1 / cost:9,.1f} {what}/s{slowest / cost:7.2f}x  {more(each)}", flush=True)


def report_windows(folder: Path, options: argparse.Namespace) -> None:
    for name in ("squad", "xquad"):
        checked = run("windows", "check", folder, name)
        if not checked["equal"]:
            raise SystemExit(f"{name}: these are other windows than Hugging Face's: nothing to compare")
        found = rounds("windows", folder, name, options)
        print(f"\nwindows, {name}: {found['ours']['questions']:,} questions, {checked['windows']:,} windows of equal "
              f"ids; answers at the same places in {checked['same places']:,}")  # fmt: skip
        table("windows", "questions", found, lambda each: "")


def report_steps(folder: Path, options: argparse.Namespace) -> None:
    print(f"\nsteps: {options.batch_size} windows each, {options.steps} after {options.warmup}")
    for what, (here, there) in run("steps", "check", folder).items():
        print(f"  {what + ' of the first windows:':32}ours {here:.7g}, theirs {there:.7g}")
        if not abs(here - there) <= TOLERANCE * abs(there):
            raise SystemExit("These are two objectives: nothing to compare")
    table("steps", "windows", rounds("steps", folder, "squad", options), lambda each: f"padding {each['padding']:.0%}")


def report_prediction(folder: Path, options: argparse.Namespace) -> None:
    for name in ("squad", "xquad"):
        found = rounds("prediction", folder, name, options)
        print(f"\nprediction, {name}: {found['ours']['questions']:,} questions")
        ours = found["ours"]["answers"]

        def agreed(each: Any, ours: Any = ours) -> str:
            same = statistics.mean(a == b for a, b in zip(each["answers"], ours, strict=True))
            return f"the same answer to {same:.1%}, peak {each['peak']:,.0f} MiB"

        table("prediction", "questions", found, agreed)


def report_memory(folder: Path, options: argparse.Namespace) -> None:
    print("\nmemory of prediction")
    for count in (1_057, 0):
        each = run("memory", str(count), folder)
        print(f"  {each['questions']:7,} questions: {each['peak']:,.0f} MiB at most, {each['before']:,.0f} before the "
              "first", flush=True)  # fmt: skip


PARTS = {"windows": windows_of, "steps": steps_of, "prediction": prediction_of, "memory": memory_of}
REPORTS = {
    "windows": report_windows,
    "steps": report_steps,
    "prediction": report_prediction,
    "memory": report_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="only these parts")
    parser.add_argument("--pipeline-python", help="with transformers 4 and torch; without it the pipeline is left out")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--questions", type=int, default=500, help="to predict, of SQuAD and of XQuAD, about")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8, help="that are measured")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them, at least 1")
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)  # a child's
    options = parser.parse_args()
    if options.side:
        part, side, folder, records = options.side
        child(part, side, Path(folder), records, options)
        return
    if not SQUAD.is_file() or not NTREX.is_dir():
        print(f"skipped: no real data in {SHARED} and {NTREX}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for part in options.only:
            REPORTS[part](folder, options)


def child(part: str, side: str, folder: Path, name: str, options: argparse.Namespace) -> None:
    """One side; its last line of output is the result."""
    torch.set_num_threads(1)
    if side == "check":
        found = check_windows(folder, name) if part == "windows" else check_steps(folder, options)
    else:
        found = PARTS[part](side, folder, name, options)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
