"""What can be checked of `benchmark` before its first run: finds the files of a suite and plans its runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from schemas import manifest
from schemas.errors import ConfigError, InputError
from schemas.runtime.output_folder import check_output
from schemas.runtime.shown_paths import shown_path
from training.checks import finetuning as finetuning_checks
from training.checks.settings import check_numbers
from training.engine.command_digest import finetune_command
from training.models.files import check_model
from training.recipes.finetuning import FinetuneConfig, FinetuneRecipe
from training.recipes.inference import Computing, EvaluateConfig
from training.recipes.scoring import Reporting
from training.recipes.suites import BenchmarkConfig, Cell, Suite, TestSet, TrainingSet, cells_of, recipe_of, suite_of
from training.runtime.outputs import SUITE, digest_of, is_suite, suite_files
from training.tasks.catalog import TASKS
from training.tasks.published import PUBLISHED, expected, files_below, find, find_translations, translated
from training.tasks.translations import check_translations

_Files = Mapping[str, Sequence[Path]]  # name → paths


class Gold(NamedTuple):
    """A test file. `lang` is None if its lines say their languages; `labels` is the file itself if it has labels."""

    lang: str | None
    path: Path
    labels: Path


class Found(NamedTuple):
    """The files of a training set."""

    train: tuple[Path, ...]
    dev: tuple[Path, ...]
    tests: Mapping[str, tuple[Gold, ...]]  # task → its files
    present: Mapping[str, tuple[str, ...]]  # task → languages, or pairs of languages, that have a file
    missing: tuple[str, ...]  # what is missing, with the names that were looked for
    translations: tuple[Path, ...] = ()  # of the training file; only looked for if a method reads them
    test_translations: Mapping[str, tuple[Path, ...]] = {}  # task → those of its files

    @property
    def is_usable(self) -> bool:
        return bool(self.train) and any(self.tests.values())


class Plan(NamedTuple):
    """A suite with its files. `cells` are its runs, without those whose files are missing."""

    suite: Suite
    found: Mapping[str, Found]  # name of a training set → its files

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell in cells_of(self.suite) if self.can_run(cell)]

    def can_run(self, cell: Cell) -> bool:
        found = self.found[cell.training]
        return found.is_usable and (bool(found.translations) or not self.recipe(cell).method.reads_translations)

    def recipe(self, cell: Cell) -> FinetuneRecipe:
        (method,) = (each for each in self.suite.methods if each.name == cell.method)
        (training,) = (each for each in self.suite.trainings if each.name == cell.training)
        return replace(recipe_of(method, training), seed=cell.seed, examples=cell.examples, sample=cell.sample)

    @property
    def tests(self) -> Iterator[tuple[TrainingSet, TestSet]]:
        """Every test set that is evaluated, with its training set."""
        for training in self.suite.trainings:
            for test in training.tests:
                if self.found[training.name].is_usable and self.found[training.name].tests[test.task]:
                    yield training, test

    def is_complete(self, training: TrainingSet, test: TestSet) -> bool:
        """Returns whether all languages are present that papers average over."""
        return set(TASKS[test.task].langs) <= set(self.found[training.name].present[test.task])

    @property
    def missing(self) -> list[str]:
        return [line for found in self.found.values() for line in found.missing]


def plan_of(config: BenchmarkConfig) -> Plan:
    """Looks for the files of the suite. Raises `ConfigError` and `InputError` for options that cannot work."""
    suite = suite_of(config)
    if config.data is None:
        raise ConfigError("no data: name the folder that holds the benchmarks' files with --data FOLDER")
    if not config.data.is_dir():
        raise ConfigError(f"--data {config.data}: no such folder. Name the folder that holds the benchmarks' files")
    files = files_below(config.data)
    return Plan(suite, {training.name: _found(files, suite, training) for training in suite.trainings})


def check(config: BenchmarkConfig) -> None:
    """Raises `ConfigError` for options that cannot work, whatever the files."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("one process runs a suite: start it without torchrun")
    check_numbers(config, {"resamples": 0, "micro_batch_tokens": 0})
    if config.dry_run:
        return
    if not config.output:
        raise ConfigError("no output: name the folder to write with --output FOLDER")
    if (Path(config.output) / SUITE).is_file() and not is_suite(Path(config.output)):
        raise InputError(f"{Path(config.output) / SUITE}: not what benchmark writes. Take another --output")
    check_output(Path(config.output), suite_files, {"--data": [config.data or ""], "--model": config.model})


def check_plan(config: BenchmarkConfig, plan: Plan) -> None:
    """Raises `ConfigError` for missing files, unless they may be left out, and for settings or models that cannot
    work."""
    if plan.missing and not config.allow_missing:
        lines = "".join(f"\n  {line}" for line in plan.missing)
        raise ConfigError(
            f"--data {config.data}: files of {plan.suite.name} are missing:{lines}\nAdd them, or leave them out with "
            "--allow-missing"
        )
    if not plan.cells:
        raise ConfigError(f"--data {config.data}: nothing of {plan.suite.name} can run: every training set lacks files")
    for cell in plan.cells:
        finetuning_checks.check(finetuning(config, plan, cell))
    for training in plan.suite.trainings:
        check_translations(plan.found[training.name].translations, training.task)
        for task, paths in plan.found[training.name].test_translations.items():
            check_translations(paths, task)
    for model in dict.fromkeys(method.model for method in plan.suite.methods):
        if model != "tiny":
            check_model(model, fetch=False)  # if the hub lacks one, its runs fail and the others go on


def plan_lines(plan: Plan) -> list[str]:
    """Returns what is printed before the first run."""
    lines = [f"Suite {plan.suite.name}: runs to do in all: {len(plan.cells):,}"]
    for method in plan.suite.methods:
        recipes = dict.fromkeys(recipe_of(method, training).name for training in plan.suite.trainings)
        lines.append(f"  method {method.name}: {', '.join(recipes)} from {shown_path(method.model)}")
    for training in plan.suite.trainings:
        found = plan.found[training.name]
        count = sum(cell.training == training.name for cell in plan.cells)
        files = ", ".join(shown_path(path) for path in (*found.train, *found.dev)) or "no training file"
        lines.append(f"  training set {training.name} ({files}), runs: {count:,}")
        lines += _translation_lines(training.name, found.translations)
        for test in training.tests:
            what = "pairs of languages" if test.all_pairs else "languages"
            lines.append(f"    {test.task}: {len(found.present[test.task])} of {len(test.names)} {what}")
            lines += _translation_lines(test.task, found.test_translations.get(test.task, ()))
        lines += [f"    missing: {line}" for line in found.missing]
    return lines


def _translation_lines(name: str, paths: Sequence[Path]) -> list[str]:
    return [f"    translations of {name}: {', '.join(map(shown_path, paths))}"] if paths else []


# --- one run ----------------------------------------------------------------------------------------------------------


def folder_of(config: BenchmarkConfig, cell: Cell) -> Path:
    return Path(config.output) / cell.folder


def finetuning(config: BenchmarkConfig, plan: Plan, cell: Cell) -> FinetuneConfig:
    """Returns the configuration of a run's training."""
    found, recipe = plan.found[cell.training], plan.recipe(cell)
    return FinetuneConfig(
        recipe=recipe,
        train=found.train,
        dev=found.dev,
        translations=found.translations if recipe.method.reads_translations else (),
        output=str(folder_of(config, cell)),
        device=config.device,
        micro_batch_tokens=config.micro_batch_tokens,
    )


def evaluations(config: BenchmarkConfig, plan: Plan, cell: Cell) -> list[EvaluateConfig]:
    """Returns the configurations of a run's evaluations, one for each task."""
    configs = []
    found = plan.found[cell.training]
    translations = found.test_translations if plan.recipe(cell).method.reads_translations else {}
    for task, golds in found.tests.items():
        langs = tuple(gold.lang for gold in golds if gold.lang is not None)
        has_labels = any(gold.labels != gold.path for gold in golds)
        reporting = Reporting(langs=langs if len(langs) == len(golds) else (), resamples=config.resamples)
        configs.append(
            EvaluateConfig(
                model=str(folder_of(config, cell)),
                task=task,
                gold=tuple(gold.path for gold in golds),
                labels=tuple(gold.labels for gold in golds) if has_labels else (),
                translations=translations.get(task, ()),
                reporting=reporting,
                computing=Computing(device=config.device),
            )
        )
    return [each for each in configs if each.gold]


def command_of(config: BenchmarkConfig, plan: Plan, cell: Cell) -> str:
    """Returns the checksum of what decides a run's scores, besides the test files: recipe, model, training files and
    translations."""
    training = finetune_command(finetuning(config, plan, cell))
    translated = [
        [each.task, path.name, digest_of(path / manifest.FILE_NAME if path.is_dir() else path)]
        for each in evaluations(config, plan, cell)
        for path in each.translations
    ]
    return hashlib.sha256(json.dumps([training, translated]).encode()).hexdigest() if translated else training


def digests_of(plan: Plan) -> dict[str, dict[str, dict[str, str]]]:
    """Returns training set → task → language and name of each test file → its SHA-256, with that of its labels."""
    return {
        name: {task: {_key(gold): _digests(gold) for gold in golds} for task, golds in found.tests.items() if golds}
        for name, found in plan.found.items()
        if found.is_usable
    }


def unlabelled_tasks(plan: Plan) -> dict[str, int]:
    """Reads the test files. Returns task → the number of its files without labels, for tasks that have such files."""
    counts: dict[str, int] = {}
    for _, test in plan.tests:
        for gold in next(found.tests[test.task] for found in plan.found.values() if found.tests.get(test.task)):
            if gold.labels == gold.path and "unlabelled" in TASKS[test.task].read(gold.path, gold.lang)[1]:
                counts[test.task] = counts.get(test.task, 0) + 1
    return counts


def _key(gold: Gold) -> str:
    return f"{gold.lang or 'all'} {gold.path.name}"


def _digests(gold: Gold) -> str:
    return " ".join(digest_of(path) for path in dict.fromkeys((gold.path, gold.labels)))


# --- the files --------------------------------------------------------------------------------------------------------


def _found(files: _Files, suite: Suite, training: TrainingSet) -> Found:
    missing: list[str] = []

    def needed(patterns: Sequence[str], what: str) -> Path | None:
        path = find(files, patterns)
        if path is None:
            missing.append(f"{what}, expected as {' or '.join(patterns)}")
        return path

    published = PUBLISHED.get(training.task)
    sets = [each.split("|") for each in training.train] or [list(published.train) if published else []]
    train = [needed(patterns, f"the training file of {training.name}") for patterns in sets]
    dev = [needed(each.split("|"), f"the dev file of {training.name}") for each in training.dev]
    tests, present = {}, {}
    for test in training.tests:
        golds = {name: gold for name in test.names if (gold := _gold(files, test, name))}
        if absent := [name for name in test.names if name not in golds]:
            names = " or ".join(expected(pattern, absent[0]) for pattern in _patterns(test))
            is_long = len(absent) == len(test.names) > 10
            what = f"all {len(absent)} files of {test.task}" if is_long else f"{test.task} {', '.join(absent)}"
            missing.append(f"{what}, expected as {names}{' …' * (len(absent) > 1)}")
        tests[test.task] = tuple(dict.fromkeys(golds.values()))
        present[test.task] = tuple(golds)
    found = Found(
        tuple(path for path in train if path) if all(train) else (),
        tuple(path for path in dev if path),
        tests,
        present,
        tuple(missing),
    )
    needs_translations = any(recipe_of(method, training).method.reads_translations for method in suite.methods)
    return _with_translations(files, training, found) if needs_translations else found


def _with_translations(files: _Files, training: TrainingSet, found: Found) -> Found:
    missing = list(found.missing)

    def needed(given: Sequence[str], default: Sequence[str], what: str, langs: Sequence[str]) -> tuple[Path, ...]:
        sets = [each.split("|") for each in given] or [list(default)]
        return _translations(files, sets, f"translations of {what}", langs, missing)

    langs = tuple(dict.fromkeys(lang for test in training.tests for lang in test.translated_langs))
    default = translated(training.task, "train")
    of_training = needed(training.translations, default, f"the training file of {training.name}", langs or ("xx",))
    of_tests = {
        test.task: needed(test.translations, translated(test.task, "test"), test.task, test.translated_langs)
        for test in training.tests
    }
    return found._replace(translations=of_training, test_translations=of_tests, missing=tuple(missing))


def _translations(
    files: _Files, sets: Sequence[Sequence[str]], what: str, langs: Sequence[str], missing: list[str]
) -> tuple[Path, ...]:
    """Looks for the files of each set of patterns, of all languages if a pattern holds {lang}. Adds those that are
    absent to `missing`."""
    paths: list[Path | None] = []
    for patterns in sets:
        names = langs if any("{lang}" in pattern for pattern in patterns) else ("",)
        found = {lang: find_translations(files, patterns, lang) for lang in names}
        paths += found.values()
        if absent := [lang for lang, path in found.items() if path is None]:
            looked_for = " or ".join(expected(pattern, absent[0]) for pattern in patterns)
            into = f" ({', '.join(absent)})" if absent[0] else ""
            missing.append(f"{what}{into}, expected as {looked_for}{' …' * (len(absent) > 1)}")
    return tuple(dict.fromkeys(path for path in paths if path))


def _gold(files: _Files, test: TestSet, name: str) -> Gold | None:
    """Returns the file of a language, or of a pair of languages; None if there is none."""
    path = find(files, _patterns(test), name)
    if path is None:
        return None
    of_lang = [pattern for pattern in _patterns(test) if "{lang" in pattern]
    if not any(path.as_posix().removesuffix(".xz").endswith(expected(pattern, name)) for pattern in of_lang):
        return Gold(None, path, path)
    labels = test.labels or (PUBLISHED[test.task].labels if test.task in PUBLISHED else ())
    found = find(files, labels, name) if "-" not in name else None
    return Gold(name.partition("-")[0], path, found or path)


def _patterns(test: TestSet) -> tuple[str, ...]:
    return test.files or PUBLISHED[test.task].test
