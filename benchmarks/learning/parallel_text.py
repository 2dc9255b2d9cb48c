"""Compares the methods that train on translations: translate-train, concatenation, FILTER, X-Mixup and its ablations.

    python -m benchmarks.learning.parallel_text --pipelines-python .venv/bin/python --task questions
    python -m benchmarks.learning.parallel_text --pipelines-python .venv/bin/python --task pairs
    python -m benchmarks.learning.parallel_text --task pairs --quick        # a few steps: does it run?

Two made-up languages, as in `benchmarks.learning.few_shot`: a model is pre-trained with CLISM + CACR + MLM on parallel
sentences, then fine-tuned by `polyspan-train finetune` on records of the source language, and judged on 500 others in
each language. Translations are made by the languages' grammar and, like a machine's, have errors: one word in ten is
another one. Those of the training records have their labels; a wrong word may make them wrong, too.

Every method has the same records, seeds and numbers of steps and of records in a step. CKA is that of the last layer's
means over 500 parallel sentences.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch

from benchmarks.learning.few_shot import OBJECTIVE, PAIRS, alignment, make_shards, pretrained
from benchmarks.learning.generate import Language, Scene, languages, parallel, scenes, squad_file
from benchmarks.learning.small import POSITIONS, arguments, table
from training.evaluate import DevSet, dev_scores
from training.finetune import finetune
from training.inference.predictor import load_predictor, with_translations
from training.models.folder import load_model
from training.recipes.finetuning import PLAIN_QA, FinetuneConfig
from training.recipes.methods import Filter, MethodSettings, Plain, XMixup
from training.tasks.records import read_records
from training.tasks.translations import read_translations

RECORDS, TESTED, CLAUSES = 1_024, 500, 3
ERRORS = 0.1  # share of the clauses of a translation that have a wrong word
RECIPE = replace(
    PLAIN_QA,
    name="parallel_text",
    max_tokens=POSITIONS,
    max_query_tokens=16,
    stride=16,
    max_answer_tokens=8,
    steps=400,
    batch_size=32,
    learning_rate=1e-3,
    weight_decay=0.0,
)
TASKS = {"questions": "squad", "pairs": "paws_x"}
FUSED = {"questions": Filter(1, 20, self_teaching=0.1), "pairs": Filter(1, 1, self_teaching=0.5)}
MIXED = {"questions": XMixup(layer=16, alpha=0.2, sampling_decay=60.0), "pairs": XMixup(layer=1, sampling_decay=30.0)}


class Files(NamedTuple):
    """The files of a task for one seed."""

    train: Path
    translations: tuple[Path, ...]  # of the training records, there and back
    tests: dict[str, Path]  # side → file
    test_translations: tuple[Path, ...]


def methods(task: str) -> dict[str, MethodSettings]:
    fused, mixed = FUSED[task], MIXED[task]
    return {
        "source alone": Plain(),
        "translate-train": Filter(24, 0),
        "concatenation": Filter(0, 24),
        "FILTER": replace(fused, self_teaching=0.0),
        "FILTER, self-teaching": fused,
        "X-Mixup": mixed,
        "X-Mixup, no mixup": replace(mixed, mixup=False),
        "X-Mixup, no scheduled sampling": replace(mixed, sampling_decay=0.0),
        "X-Mixup, no consistency": replace(mixed, mse_weight=0.0, kl_weight=0.0),
        "X-Mixup, λ = λ0": replace(mixed, ratio="constant"),
    }


def main() -> None:
    task = sys.argv[sys.argv.index("--task") + 1] if "--task" in sys.argv else "questions"
    sys.argv = [word for word in sys.argv if word not in ("--task", task)]
    options = arguments(__doc__)
    source, target = languages(1)
    held_out = parallel(source, target, TESTED, 3, seed=2)
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_shards(
            folder, parallel(source, target, PAIRS // 10 if options.quick else PAIRS, 3, 1), options.pipelines_python
        )
        for seed in range(options.seeds):
            model = pretrained(folder, f"start-{seed}", OBJECTIVE, seed, options.quick)
            found.setdefault("the start", []).append([float("nan")] * 3 + [similarity(model, held_out)])
            files = written(folder / f"{task}-{seed}", task, source, target, seed)
            for name, method in methods(task).items():
                recipe = replace(RECIPE, task=TASKS[task], method=method, seed=seed, model=str(model))
                recipe = replace(recipe, steps=20 if options.quick else RECIPE.steps)
                trained = fine_tuned(recipe, files, folder / f"{name}-{task}-{seed}")
                found.setdefault(name, []).append(
                    [*judged(trained, files, task), alignment(load_model(trained), held_out)]
                )
                print(seed, name, found[name][-1], file=sys.stderr, flush=True)
    measure = "exact match" if task == "questions" else "accuracy"
    columns = [f"source: {measure}", f"target: {measure}", "target, without a translation", "CKA"]
    print(table(["trained with", *columns], [[name, *zip(*rows, strict=True)] for name, rows in found.items()]))


def similarity(model: Path, sentences: Sequence[tuple[str, str]]) -> float:
    return alignment(load_model(model, mlm=False), sentences)


def fine_tuned(recipe: Any, files: Files, output: Path) -> Path:
    reads = recipe.method.reads_translations
    config = FinetuneConfig(
        recipe,
        train=(files.train,),
        train_langs=("en",),
        translations=files.translations if reads else (),
        output=str(output),
        device="cpu",
    )
    with contextlib.redirect_stderr(io.StringIO()):
        finetune(config)
    return output / "model"


def judged(model: Path, files: Files, task: str) -> list[float]:
    """The share of right answers in the source language, and in the target language with and without translations."""
    plain = load_predictor(model, torch.device("cpu"))
    helped = plain
    if plain.settings.method.reads_translations:
        helped = with_translations(plain, read_translations(files.test_translations, TASKS[task]))
    figures = []
    for predictor, side, lang in ((plain, "source", "en"), (helped, "target", "de"), (plain, "target", "de")):
        records = read_records([files.tests[side]], TASKS[task], [lang], labelled=True).records
        scores = dev_scores(
            predictor.model, predictor.formulation, [DevSet("test", TASKS[task], records)], predictor.device, "fp32"
        )["test"]
        figures.append(scores["exact_match" if task == "questions" else "accuracy"] / 100)
    return figures


# --- records and their translations -----------------------------------------------------------------------------------


class Said(NamedTuple):
    """A scene in one language, with the clause that the record is about."""

    scene: Scene
    asked: int  # name
    word: int  # which of the noun's two words the question has
    label: int  # of the pair: 1 if the name is the noun's


def made(language: Language, count: int, seed: int) -> Iterator[Said]:
    random = Random(f"record {seed}")
    for number, scene in enumerate(scenes(language, count, CLAUSES, seed)):
        clause = random.choice(scene.clauses)
        yield Said(scene, clause.name, 1 - clause.word, number % 2)


def translated(said: Said, language: Language, random: Random) -> Said:
    """The same in other words and another order, with errors."""
    clauses = []
    for clause in random.sample(said.scene.clauses, CLAUSES):
        name = clause.name
        if random.random() < ERRORS and name != said.asked:  # the answer stays, so that the label has a place
            name = random.randrange(len(language.names))
        clauses.append(clause._replace(name=name, word=random.randrange(2)))
    word = next(clause.word for clause in clauses if clause.name == said.asked)
    return said._replace(scene=said.scene._replace(clauses=clauses), word=1 - word)


def question(said: Said, language: Language, id_: str) -> dict[str, Any]:
    passage, name = language.sentence(said.scene), language.names[said.asked]
    answer = {"text": name, "answer_start": passage.index(name)}
    asked = language.words_of(said.asked)[said.word]
    return {"context": passage, "qas": [{"id": id_, "question": asked, "answers": [answer]}]}


def pair(said: Said, language: Language) -> list[str]:
    """The passage, and the other word for one of its nouns (1), or a noun that it lacks (0)."""
    nouns = len(language.nouns)
    said_nouns = {clause.name % nouns for clause in said.scene.clauses}
    absent = next(noun for noun in range(said.asked, said.asked + nouns) if noun % nouns not in said_nouns)
    return [language.sentence(said.scene), language.words_of(said.asked if said.label else absent)[said.word]]


def written(folder: Path, task: str, source: Language, target: Language, seed: int) -> Files:
    """Writes the files as XTREME publishes them."""
    folder.mkdir()
    random = Random(f"translation {seed}")
    train, test = list(made(source, RECORDS, 10 + seed)), list(made(source, TESTED, 3))
    there = [translated(said, target, random) for said in train]
    back = [translated(said, source, random) for said in there]
    test_there = list(made(target, TESTED, 4))
    test_back = [translated(said, source, random) for said in test_there]
    if task == "questions":

        def squad(name: str, language: Language, all_said: Sequence[Said], ids: str) -> Path:
            rows = (question(said, language, f"{ids}-{number}") for number, said in enumerate(all_said))
            return squad_file(folder / name, rows)

        return Files(
            squad("train.json", source, train, "train"),
            (squad("train.en-de.json", target, there, "train"), squad("train.de-en.json", source, back, "train")),
            {
                "source": squad("test.en.json", source, test, "en"),
                "target": squad("test.de.json", target, test_there, "de"),
            },
            (squad("test.de-en.json", source, test_back, "de"),),
        )

    def tsv(name: str, *columns: tuple[Language, Sequence[Said]], labels: Sequence[Said] = ()) -> Path:
        lines = []
        for number in range(len(columns[0][1])):
            fields = [text for language, all_said in columns for text in pair(all_said[number], language)]
            lines.append("\t".join([*fields, *([str(labels[number].label)] if labels else [])]) + "\n")
        (folder / name).write_text("".join(lines), encoding="utf-8")
        return folder / name

    return Files(
        tsv("train-en.tsv", (source, train), labels=train),
        (
            tsv("en-de-translated.tsv", (source, train), (target, there), labels=train),
            tsv("de-en-translated.tsv", (target, there), (source, back), labels=train),
        ),
        {
            "source": tsv("test-en.tsv", (source, test), labels=test),
            "target": tsv("test-de.tsv", (target, test_there), labels=test_there),
        },
        (tsv("test-de-en-translated.tsv", (target, test_there), (source, test_back)),),
    )


if __name__ == "__main__":
    main()
