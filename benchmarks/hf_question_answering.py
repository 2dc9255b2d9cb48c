"""Answers of a plain model against those of transformers' question-answering pipeline, on XQuAD.

    python -m training.cli finetune plain_qa --train ../shared/data/qa/xquad/xquad.{en,de,ar,zh,vi,th}.json \\
        --model tiny --steps 150 --batch-size 16 --learning-rate 1e-3 --output RUN
    python -m benchmarks.hf_question_answering predict --model RUN/model --output ours.jsonl
    OTHER/python benchmarks/hf_question_answering.py compare --model RUN/model --predictions ours.jsonl

transformers 5 has the pipeline no more, so OTHER is a Python with transformers 4 and torch, nothing else. Any model of
AutoModelForQuestionAnswering will do. An agreement is an answer of the same characters.

`pipeline` is the pipeline as it is. It adds up the probabilities of answers that read alike in neighbouring windows, or
that differ in case alone: more than 1 may come out, and a span in a window's overlap gains on all others. We take
the better of the two. `not added` is the pipeline without that. It cuts no query, and fails on one that leaves no room
for a context; ours never share more than half of what is left for one. To a lone "▁" before a word its
tokenizer gives the place of the word's first letter, where our token is empty. Each is counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

XQUAD = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "qa" / "xquad"
LANGS = ("en", "ar", "de", "el", "es", "hi", "ru", "th", "tr", "vi", "zh")
CLOSE = 1e-4  # of two probabilities, relative: no more than rounding


def predict(args: argparse.Namespace) -> None:
    """Our answers, a line each, with all that the other part needs to ask the same."""
    from dataclasses import replace

    import torch

    from training.inference.predictor import load_predictor, predict
    from training.tasks.catalog import TASKS

    torch.set_num_threads(1)
    loaded = load_predictor(args.model, torch.device("cpu"))
    settings = replace(
        loaded.settings,
        max_tokens=args.max_tokens,
        max_query_tokens=args.max_query_tokens,
        stride=args.stride,
        max_answer_tokens=args.longest,
    )
    formulation: Any = replace(loaded.formulation, settings=settings)  # type: ignore[type-var]
    records = []
    for lang in args.langs:
        found, *_ = TASKS["xquad"].read(args.xquad / f"xquad.{lang}.json", lang)
        step = max(1, len(found) // args.questions)
        # The position of an answer must not decide where windows are.
        records += [replace(each, answers=()) for each in found[::step][: args.questions]]
    begun = time.perf_counter()
    predictions = predict(loaded.model, formulation, records, loaded.device)
    seconds = time.perf_counter() - begun
    windows = Counter(each.record for each in formulation.features(records))
    with args.output.open("w", encoding="utf-8") as file:
        asked = {"max_seq_len": args.max_tokens, "doc_stride": args.stride, "max_answer_len": args.longest}
        print(json.dumps({"max_query_tokens": args.max_query_tokens, "pipeline": asked}), file=file)
        for index, (record, prediction) in enumerate(zip(records, predictions, strict=True)):
            row = {"lang": record.lang, "query": record.query, "context": record.context, "windows": windows[index]}
            print(json.dumps({**row, **prediction.to_json()}, ensure_ascii=False), file=file)
    print(f"{len(records)} questions in {seconds:.1f} s")


def compare(args: argparse.Namespace) -> None:
    """Compares the pipeline's answers to the same questions with ours."""
    import torch
    import transformers

    if int(transformers.__version__.split(".")[0]) > 4:
        sys.exit(f"transformers {transformers.__version__} has no question-answering pipeline: run this with version 4")
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer
    from transformers.pipelines import QuestionAnsweringPipeline

    class NotAdded(QuestionAnsweringPipeline):
        """Of answers that read alike the better one counts."""

        def get_answer(self, answers: list[dict[str, Any]], target: str) -> None:
            return None

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    # transformers 5 writes a list there, which version 4 cannot read; these tokens are in tokenizer.json anyway.
    tokenizer = AutoTokenizer.from_pretrained(args.model, extra_special_tokens={})
    model = AutoModelForQuestionAnswering.from_pretrained(args.model)
    settings, *rows = map(json.loads, args.predictions.read_text(encoding="utf-8").splitlines())
    # A window has to hold the query, and of the context more than its neighbour.
    room = settings["pipeline"]["max_seq_len"] - tokenizer.num_special_tokens_to_add(pair=True)
    longest_query = room - settings["pipeline"]["doc_stride"]
    same_without = [False] * len(rows)
    for name, kind in (("not added", NotAdded), ("pipeline", QuestionAnsweringPipeline)):
        pipeline = kind(model=model, tokenizer=tokenizer, device=-1)
        begun = time.perf_counter()
        asked, agreed, differences = Counter[str](), Counter[str](), Counter[str]()
        close, largest = 0, 0.0
        for index, row in enumerate(rows):
            windows = "several windows" if row["windows"] > 1 else "one window"
            asked[windows] += 1
            query_tokens = len(tokenizer.tokenize(row["query"]))
            if query_tokens >= longest_query:
                differences["query too long"] += 1
                continue
            theirs = pipeline(
                question=row["query"],
                context=row["context"],
                align_to_words=False,
                handle_impossible_answer=False,
                **settings["pipeline"],
            )
            ours = row["spans"][0]
            gap = abs(ours["score"] - theirs["score"])
            if (ours["start_char"], ours["end_char"]) == (theirs["start"], theirs["end"]):
                same_without[index] = True
                agreed[windows] += 1
                close += gap < CLOSE * ours["score"]
                largest = max(largest, gap)
                continue
            if same_without[index]:
                why = "added"
            elif query_tokens > settings["max_query_tokens"]:
                why = "query cut"
            elif query_tokens > longest_query - settings["pipeline"]["doc_stride"]:
                why = "less overlap"
            else:
                why = reason(tokenizer, row["context"], ours, theirs)
            differences[why] += 1
            if args.show:
                print(f"{name}: {row['lang']} {row['id']} {why}: {ours} {theirs}")
        seconds = time.perf_counter() - begun
        counts = ", ".join(f"{agreed[windows]} of {asked[windows]} with {windows}" for windows in sorted(asked))
        print(
            f"{name}: {counts} agree; {close} in the score too, the largest difference {largest:.1e}; "
            f"the others: {dict(differences) or 'none'}; {seconds:.1f} s"
        )


def timed(args: argparse.Namespace) -> None:
    """CPU seconds of the pipeline as it is, in batches, and what it answers: for bench_training_finetune."""
    import torch
    import transformers
    from transformers import pipeline

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    rows = list(map(json.loads, args.questions.read_text(encoding="utf-8").splitlines()))
    # As in `compare`.
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model, extra_special_tokens={})
    make: Any = pipeline  # version 5 knows no such task
    ask = make("question-answering", args.model, tokenizer=tokenizer, device=-1, batch_size=args.batch_size)
    begun = time.process_time()
    found = ask(rows, max_seq_len=384, doc_stride=128, max_answer_len=30, align_to_words=False)
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({"cpu": seconds, "answers": [(each["start"], each["end"]) for each in found], "peak": peak}))


def reason(tokenizer: Any, context: str, ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Why the answer to the same tokens differs, as far as one can see."""
    text = context[theirs["start"] : theirs["end"]]
    if text != text.strip():
        return "blank at an edge"
    ends = {end for _, end in lone_blanks(tokenizer, context)}
    if theirs["end"] in ends:
        return "ends in a blank token"
    return "equal score" if abs(ours["score"] - theirs["score"]) < CLOSE * ours["score"] else "other"


def lone_blanks(tokenizer: Any, context: str) -> Iterator[tuple[int, int]]:
    encoded = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)
    for token, offsets in zip(encoded.tokens(), encoded["offset_mapping"], strict=True):
        if token == "▁":
            yield offsets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("predict")
    part.set_defaults(run=predict)
    part.add_argument("--model", required=True)
    part.add_argument("--output", type=Path, required=True)
    part.add_argument("--xquad", type=Path, default=XQUAD, help="the folder of xquad.en.json, …")
    part.add_argument("--langs", nargs="+", default=LANGS)
    part.add_argument("--questions", type=int, default=50, help="of each language")
    part.add_argument("--max-tokens", type=int, default=384)
    part.add_argument("--max-query-tokens", type=int, default=128, help="the pipeline cuts none")
    part.add_argument("--stride", type=int, default=128)
    part.add_argument("--longest", type=int, default=30, help="tokens of an answer")
    part = parts.add_parser("compare")
    part.set_defaults(run=compare)
    part.add_argument("--model", required=True)
    part.add_argument("--predictions", type=Path, required=True)
    part.add_argument("--show", action="store_true", help="print every answer that differs")
    part = parts.add_parser("time")
    part.set_defaults(run=timed)
    part.add_argument("--model", required=True)
    part.add_argument("--questions", type=Path, required=True, help="JSON lines with question and context")
    part.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
