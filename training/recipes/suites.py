"""What `polyspan-train benchmark` is asked for: suites of methods, training sets, test sets and seeds.

A suite is a built-in one (`SUITES`) or a TOML file:

    seeds = [1, 2, 3]

    [[methods]]
    name = "plain"
    recipe = "plain_qa"            # or recipes = { qa = "plain_qa", tagging = "plain_tagging" }
    options = { steps = 2000 }     # settings of the recipe, as finetune has them: method.alpha = 0.5

    [[trainings]]
    name = "squad"
    task = "squad"
    train = ["train-v1.1.json"]    # ends of paths below --data; without it, the published name
    translations = ["tr/squad"]    # the same; {lang} is each language of the tests but English

    [[trainings.tests]]
    task = "xquad"
    langs = ["de", "hi"]
    translations = ["tr/xquad"]    # of the test files, into English
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import tyro

from schemas.did_you_mean import did_you_mean
from schemas.errors import ConfigError, InputError
from training.recipes.finetuning import FINETUNE_RECIPES, FinetuneRecipe
from training.tasks.catalog import TASKS
from training.tasks.published import PUBLISHED

if TYPE_CHECKING or sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

D = TypeVar("D")


@dataclass(frozen=True)
class TestSet:
    """The test files of a task, one for each language."""

    __test__ = False  # not a test of pytest

    task: str
    langs: tuple[str, ...] = ()  # empty: those that papers average over
    files: tuple[str, ...] = ()  # patterns of `training.tasks.published`; empty: the published names
    labels: tuple[str, ...] = ()
    translations: tuple[str, ...] = ()  # into English, as `train`; only methods that read translations need them
    all_pairs: bool = False  # MLQA: questions in every language for contexts in every language (G-XLT)

    @property
    def names(self) -> tuple[str, ...]:
        """The languages, or MLQA's pairs such as `de-es`, each of which has a file."""
        langs = self.langs or TASKS[self.task].langs
        if not self.all_pairs:
            return langs
        return tuple(c if c == q else f"{c}-{q}" for c in langs for q in langs)

    @property
    def translated_langs(self) -> tuple[str, ...]:
        """The languages of the tests but English: those of the contexts, for MLQA's pairs."""
        return tuple(lang for lang in self.langs or TASKS[self.task].langs if lang != "en")


@dataclass(frozen=True)
class TrainingSet:
    """What a model is fine-tuned on, and the test sets on which it is evaluated."""

    name: str
    task: str
    train: tuple[str, ...] = ()  # for each file its patterns, separated by |; empty: the published English file
    dev: tuple[str, ...] = ()
    translations: tuple[str, ...] = ()  # as `train`, of the training file into {lang}; empty: the published names
    tests: tuple[TestSet, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A row of the tables: recipes with settings of their own."""

    name: str
    recipes: Mapping[str, str]  # name of a training set, or kind of task → recipe
    model: str = ""  # empty: that of --model
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    trainings: tuple[TrainingSet, ...]
    methods: tuple[Method, ...] = ()
    seeds: tuple[int, ...] = (1,)
    examples: tuple[int, ...] = (0,)  # sizes of few-shot training sets; 0: all records
    samples: int = 1  # training sets of each size, drawn at random


# --- the built-in suites ----------------------------------------------------------------------------------------------

METHODS = {
    "plain": {"qa": "plain_qa", "tagging": "plain_tagging", "pairs": "plain_pairs"},
    "clism": {"qa": "clism_qa", "tagging": "clism_ner"},
    "mpmr": {
        "squad": "mpmr_squad",
        "tydiqa": "mpmr_tydiqa",
        "wikiann": "mpmr_wikiann",
        "paws_x": "mpmr_paws_x",
        "xnli": "mpmr_xnli",
    },
    **{
        family: {kind: f"{family}_{kind}" for kind in ("qa", "tagging", "pairs")}
        for family in ("filter", "x_mixup", "translate_train")
    },
}
"""Families of recipes: name → training set or kind of task → recipe. Any recipe is a method by its own name, too."""

_QA = (
    TrainingSet("squad", "squad", tests=(TestSet("xquad"), TestSet("mlqa", all_pairs=True))),
    TrainingSet("tydiqa", "tydiqa", tests=(TestSet("tydiqa"),)),
)
_NER, *_PAIRS = (  # XTREME takes the weights that are best on the English dev file
    TrainingSet(task, task, dev=("|".join(PUBLISHED[task].dev),), tests=(TestSet(task),))
    for task in ("wikiann", "paws_x", "xnli")
)
SUITES = {
    "xtreme-qa": Suite("xtreme-qa", _QA),
    "xtreme-ner": Suite("xtreme-ner", (_NER,)),
    "xtreme-pairs": Suite("xtreme-pairs", tuple(_PAIRS)),
    "xtreme": Suite("xtreme", (*_PAIRS, _NER, *_QA)),
    "mlqa-few-shot": Suite(
        "mlqa-few-shot",
        (TrainingSet("squad", "squad", tests=(TestSet("mlqa", all_pairs=True),), options={"steps": 200}),),
        examples=(64, 128, 256, 512, 1024),
        samples=5,
    ),
}
SUITE_ABOUT = {
    "xtreme-qa": "SQuAD → XQuAD and MLQA with all pairs of languages; TyDiQA-GoldP",
    "xtreme-ner": "WikiAnn in XTREME's 40 languages",
    "xtreme-pairs": "PAWS-X and XNLI",
    "xtreme": "all three, with XTREME's averages",
    "mlqa-few-shot": "64 to 1,024 examples of SQuAD, five samples each → MLQA (CLISM, appendix C)",
}


# --- the command ------------------------------------------------------------------------------------------------------


def _suites() -> str:
    return "; ".join(f"{name}: {about}" for name, about in SUITE_ABOUT.items())


@dataclass(frozen=True)
class BenchmarkConfig:
    """Runs a suite: fine-tunes every method on every training set with every seed, evaluates all of its languages, and
    prints the tables that papers print.

    polyspan-train benchmark xtreme-qa --data downloads --model xlm-roberta-base --seeds 1 2 3 --output runs/qa
    """

    suite: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE", help=f"A TOML file, or: {_suites()}.")]
    data: Path | None = None
    """The folder that holds the published files, at any depth, as XTREME's download or the tasks' authors lay them
    out."""
    model: tuple[str, ...] = ()
    """The models to start from: folders or names on the hub. With several, each method has a row for each model."""
    methods: tuple[str, ...] = ()
    """Families of recipes (plain, clism, mpmr, filter, x_mixup, translate_train) or names of recipes. None: those of
    the TOML file, or plain."""
    seeds: tuple[int, ...] = ()
    """Seeds of the fine-tunings. None: those of the suite."""
    set: tuple[str, ...] = ()
    """Settings for all methods, such as steps=200 batch_size=8, by their names in run.json."""
    output: str = ""
    """The folder to write. Repeat a command to go on where it was stopped, or to try again what failed; methods, models
    and seeds may be added."""
    overwrite: bool = False
    """Begin anew. A suite in the output folder stays until the new one, made in `.NAME.new` beside it, is complete and
    takes its place."""
    dry_run: bool = False
    """Only list the runs, and the files that are present and missing."""
    allow_missing: bool = False
    """Leave out the languages whose files are missing, and training sets without training file. Averages then say over
    how many languages they are, and XTREME's averages are left out."""
    keep_models: bool = False
    """Keep the models of every run, gigabytes each. Otherwise only its scores, predictions and logs stay."""
    format: Literal["text", "markdown", "latex", "json"] = "text"
    """The format of the tables that are printed. All are written to the output folder."""
    resamples: int = 1_000
    """Resamples of the bootstrap that gives confidence intervals and the significance of differences between methods;
    0: neither."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that computes. auto: a GPU if there is one, else the CPU."""
    micro_batch_tokens: int | None = None
    """Approximate maximum of tokens that go through the encoder at once; 0 takes the whole batch. Smaller values take
    less memory and more time. None takes 1,024 on a CPU and 0 on a GPU."""


def suite_of(config: BenchmarkConfig) -> Suite:
    """Returns the suite with the command's methods, models, seeds and settings.

    Raises `ConfigError` for what cannot work and `InputError` for a TOML file that cannot be read.
    """
    suite = SUITES.get(config.suite) or read_suite(config.suite)
    methods = tuple(map(_method, config.methods)) or suite.methods or (_method("plain"),)
    given = dict(_setting(text) for text in config.set)
    if given:
        methods = tuple(replace(each, options={**each.options, **given}) for each in methods)
    methods = _with_models(methods, config.model)
    suite = replace(suite, methods=methods, seeds=config.seeds or suite.seeds)
    check_suite(suite)
    return suite


def _method(name: str) -> Method:
    if name in METHODS:
        return Method(name, METHODS[name])
    if name in FINETUNE_RECIPES:
        return Method(name, {TASKS[FINETUNE_RECIPES[name].task].kind: name})
    known = [*METHODS, *FINETUNE_RECIPES]
    raise ConfigError(f"--methods: there is no method {name!r}.{did_you_mean(name, known)} Methods: {', '.join(known)}")


def _setting(text: str) -> tuple[str, Any]:
    name, mark, value = text.partition("=")
    if not mark:
        raise ConfigError(f"--set {text}: expected NAME=VALUE, such as steps=200")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _with_models(methods: tuple[Method, ...], models: tuple[str, ...]) -> tuple[Method, ...]:
    """Returns a method for each model; methods with a model of their own stay as they are."""
    if not models and (without := [each.name for each in methods if not each.model]):
        raise ConfigError(f"no model: name the one that method {without[0]} starts from with --model")
    if len(models) == 1:
        return tuple(replace(each, model=each.model or models[0]) for each in methods)
    rows = []
    for each in methods:
        rows += [each] if each.model else [replace(each, model=m, name=f"{each.name}-{_short(m)}") for m in models]
    return tuple(rows)


def _short(model: str) -> str:
    parts = [part for part in Path(model).parts if re.search(r"\w", part)]
    if len(parts) > 1 and parts[-1] == "model":
        del parts[-1]
    return re.sub(r"[^\w.-]+", "-", parts[-1]) if parts else "model"


# --- a suite of one's own ---------------------------------------------------------------------------------------------


def read_suite(path: str) -> Suite:
    """Reads a suite's TOML file. Raises `ConfigError` if there is none, `InputError` for content that is no suite."""
    if not Path(path).is_file():
        known = "" if Path(path).suffix else did_you_mean(path, SUITES)
        raise ConfigError(f"{path}: no such suite or TOML file.{known} Suites: {', '.join(SUITES)}")
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: no TOML ({error})") from None
    values.setdefault("name", Path(path).stem)
    values["methods"] = tuple(_read_method(path, each) for each in _tables(path, values, "methods"))
    values["trainings"] = tuple(_read_training(path, each) for each in _tables(path, values, "trainings"))
    if not values["trainings"]:
        raise InputError(f"{path}: no [[trainings]]: a suite needs what its models are fine-tuned on")
    return _made(path, Suite, values, "suite")


def _read_method(path: str, values: dict[str, Any]) -> Method:
    if "recipe" in values:
        recipe = values.pop("recipe")
        if recipe not in FINETUNE_RECIPES:
            raise InputError(f"{path}: there is no recipe {recipe!r}.{did_you_mean(str(recipe), FINETUNE_RECIPES)}")
        values = {"name": recipe, **values, "recipes": {TASKS[FINETUNE_RECIPES[recipe].task].kind: recipe}}
    return _made(path, Method, values, "[[methods]]")


def _read_training(path: str, values: dict[str, Any]) -> TrainingSet:
    values["tests"] = tuple(
        _made(path, TestSet, test, "[[trainings.tests]]") for test in _tables(path, values, "tests")
    )
    values.setdefault("name", values.get("task", "without a task"))
    return _made(path, TrainingSet, values, "[[trainings]]")


def _tables(path: str, values: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = values.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{path}: {name}: expected [[{name}]]")
    return found


def _made(path: str, kind: type[D], values: Mapping[str, Any], where: str) -> D:
    """Returns the dataclass of a TOML table. Raises `InputError` for unknown, missing and mistyped keys."""
    known = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    if other := [name for name in values if name not in known]:
        raise InputError(
            f"{path}: {where}: unknown key {other[0]!r}.{did_you_mean(other[0], known)} Keys: {', '.join(known)}"
        )
    made = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, value in made.items():
        _check_type(path, f"{where}: {name}", known[name], value)
    try:
        return kind(**made)
    except TypeError:
        missing = [name for name in ("name", "task", "recipes") if name in known and made.get(name) is None]
        raise InputError(f"{path}: {where}: {missing[0]} is missing") from None


def _check_type(path: str, where: str, wanted: str, value: Any) -> None:
    each = value if isinstance(value, tuple) else (value,)
    types: dict[str, type] = {"str": str, "int": int, "bool": bool, "tuple[str, ...]": str, "tuple[int, ...]": int}
    kind = types.get(wanted, dict if wanted.startswith("Mapping") else None)
    is_right = kind is None or all(isinstance(one, kind) for one in each)
    if value is None or not is_right or (isinstance(value, tuple) != wanted.startswith("tuple")):
        raise InputError(f"{path}: {where}: expected {wanted}, found {value!r}")


def check_suite(suite: Suite) -> None:
    """Raises `ConfigError` for unknown tasks, names that repeat, recipes that do not fit, and settings that no recipe
    has."""
    for what, names in (
        ("method", [each.name for each in suite.methods]),
        ("training set", [each.name for each in suite.trainings]),
        ("seed", list(suite.seeds)),
        ("number of examples", list(suite.examples)),
        ("test set", [test.task for each in suite.trainings for test in each.tests]),
    ):
        if not names or len({str(name).casefold() for name in names}) < len(names):
            raise ConfigError(f"suite {suite.name}: expected each {what} once, found {names}")
        for name in names:
            if isinstance(name, str) and not re.fullmatch(r"\w[\w.-]*", name):
                raise ConfigError(f"suite {suite.name}: {what} {name!r}: expected letters, digits and . - _")
    if min(suite.examples) < 0 or suite.samples < 1:
        raise ConfigError(f"suite {suite.name}: expected examples of 0 or more and 1 sample or more")
    for training in suite.trainings:
        _check_tasks(training)
        for method in suite.methods:
            recipe_of(method, training)


def _check_tasks(training: TrainingSet) -> None:
    for task in (training.task, *(test.task for test in training.tests)):
        if task not in TASKS:
            raise ConfigError(f"training set {training.name}: unknown task {task!r}.{did_you_mean(task, TASKS)}")
    for test in training.tests:
        if TASKS[test.task].kind != TASKS[training.task].kind:
            raise ConfigError(f"training set {training.name}: {test.task} is another kind of task than {training.task}")
        if not test.files and (test.task not in PUBLISHED or not PUBLISHED[test.task].test):
            raise ConfigError(f"training set {training.name}: say which are the files of {test.task}: files = [...]")
        if test.all_pairs and test.task != "mlqa":
            raise ConfigError(f"training set {training.name}: all_pairs is for mlqa, not for {test.task}")
    if not training.train and (training.task not in PUBLISHED or not PUBLISHED[training.task].train):
        raise ConfigError(f"training set {training.name}: say which are its training files: train = [...]")


# --- its runs ---------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One fine-tuning."""

    method: str
    training: str
    examples: int  # 0: all records
    seed: int
    sample: int

    def __str__(self) -> str:
        size = f", {self.examples:,} examples, sample {self.sample}" if self.examples else ""
        return f"{self.method} on {self.training}{size}, seed {self.seed}"

    @property
    def folder(self) -> str:
        size = f"-{self.examples}" if self.examples else ""
        return f"{self.method}/{self.training}{size}/{self.draw}"

    @property
    def draw(self) -> str:
        return f"seed-{self.seed}" + (f"-sample-{self.sample}" if self.examples else "")


def cells_of(suite: Suite) -> Iterator[Cell]:
    for method in suite.methods:
        for training in suite.trainings:
            for examples in suite.examples:
                for seed in suite.seeds:
                    for sample in range(1, (suite.samples if examples else 1) + 1):
                        yield Cell(method.name, training.name, examples, seed, sample)


def recipe_of(method: Method, training: TrainingSet) -> FinetuneRecipe:
    """Returns a method's recipe for a training set, without seed and examples. Raises `ConfigError` if it has none."""
    kind = TASKS[training.task].kind
    name = method.recipes.get(training.name) or method.recipes.get(training.task) or method.recipes.get(kind)
    if name is None:
        raise ConfigError(f"method {method.name} has no recipe for {training.name}, which is {kind}")
    if name not in FINETUNE_RECIPES:
        raise ConfigError(f"method {method.name}: there is no recipe {name!r}.{did_you_mean(name, FINETUNE_RECIPES)}")
    recipe = replace(FINETUNE_RECIPES[name], task=training.task, model=method.model)
    return with_settings(recipe, {**training.options, **method.options}, method.name)


def with_settings(recipe: FinetuneRecipe, settings: Mapping[str, Any], method: str) -> FinetuneRecipe:
    """Returns the recipe with other settings; `method.alpha` is a setting of its method. Raises `ConfigError` for an
    unknown name, a value of another type, and what the suite itself decides."""
    for name, value in settings.items():
        owner, key = (recipe.method, name[7:]) if name.startswith("method.") else (recipe, name)
        known = [each.name for each in fields(owner) if each.name not in _OF_SUITE]
        if key not in known:
            what = f"the suite decides {name!r}" if key in _OF_SUITE else f"recipe {recipe.name} has no {name!r}"
            hint = f"{did_you_mean(key, known)} Settings: {', '.join(known)}"
            raise ConfigError(f"method {method}: {what}.{hint}")
        before = getattr(owner, key)
        is_number = isinstance(before, float) and isinstance(value, int) and not isinstance(value, bool)
        if not is_number and type(value) is not type(before):
            raise ConfigError(f"method {method}: {name}: expected {type(before).__name__}, found {value!r}")
        changed: dict[str, Any] = {key: float(value) if is_number else value}
        if owner is recipe:
            recipe = replace(recipe, **changed)
        else:
            recipe = replace(recipe, method=replace(recipe.method, **changed))
    return recipe


_OF_SUITE = ("name", "method", "task", "model", "examples", "sample", "seed")
