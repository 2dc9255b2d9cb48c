"""Finds the benchmarks' files below a folder, by the names that XTREME's download or the tasks' authors give them.

A pattern is the end of a path. It may hold {lang}, {question} (the language of MLQA's questions) and {language} (its
English name). Of several patterns the first that fits is taken.

Translations of one's own are found below `translations/TASK-train` and `translations/TASK-test`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from schemas import manifest
from schemas.errors import ConfigError
from training.runtime.outputs import EVALUATION, RUN, SERIES, SUITE
from training.tasks.tydiqa import CODES


class Published(NamedTuple):
    """The patterns of a task's files. Training and dev files are English, as XTREME's zero-shot setting has them."""

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # XTREME's label files, for test files without labels
    xtreme: str = ""  # the task's folder in a submission to XTREME
    translated_train: tuple[str, ...] = ()  # the training file in {lang}, for methods that read translations
    translated_test: tuple[str, ...] = ()  # the test file of {lang} in English


PUBLISHED = {
    "squad": Published(
        ("train-v1.1.json",),
        ("dev-v1.1.json",),
        ("dev-v1.1.json",),
        translated_train=("squad.translate.train.en-{lang}.json",),
    ),
    "xquad": Published(
        test=("xquad.{lang}.json",),
        labels=("labels/xquad/test-{lang}.json",),
        xtreme="xquad",
        translated_test=("xquad.translate.test.{lang}-en.json",),
    ),
    "mlqa": Published(
        test=("test-context-{lang}-question-{question}.json",),
        labels=("labels/mlqa/test-{lang}.json",),
        xtreme="mlqa",
        translated_test=("mlqa.translate.test.{lang}-en.json",),
    ),
    "tydiqa": Published(
        ("tydiqa.goldp.en.train.json",),
        (),
        ("tydiqa.goldp.{lang}.dev.json", "tydiqa-goldp-dev-{language}.json"),
        ("labels/tydiqa/test-{lang}.json",),
        "tydiqa",
        ("tydiqa.translate.train.en-{lang}.json",),
        ("tydiqa.translate.test.{lang}-en.json",),
    ),
    "wikiann": Published(
        ("panx/train-en.tsv", "en/train"),
        ("panx/dev-en.tsv", "en/dev"),
        ("panx/test-{lang}.tsv", "{lang}/test"),
        ("labels/panx/test-{lang}.tsv",),
        "panx",
    ),
    "paws_x": Published(
        ("pawsx/train-en.tsv", "x-final/en/train.tsv"),
        ("pawsx/dev-en.tsv", "x-final/en/dev_2k.tsv"),
        ("pawsx/test-{lang}.tsv", "x-final/{lang}/test_2k.tsv"),
        ("labels/pawsx/test-{lang}.tsv",),
        "pawsx",
        (
            "PAWSX/translate-train/en-{lang}-translated.tsv",
            "pawsx/translate-train/en-{lang}-translated.tsv",
            "x-final/{lang}/translated_train.tsv",
        ),
        (
            "PAWSX/translate-test/test-{lang}-en-translated.tsv",
            "pawsx/translate-test/test-{lang}-en-translated.tsv",
        ),
    ),
    "xnli": Published(
        ("xnli/train-en.tsv", "multinli.train.en.tsv"),
        ("xnli/dev-en.tsv",),
        ("xnli/test-{lang}.tsv", "xnli.test.tsv"),
        ("labels/xnli/test-{lang}.tsv",),
        "xnli",
        ("XNLI/translate-train/en-{lang}-translated.tsv", "xnli/translate-train/en-{lang}-translated.tsv"),
        ("XNLI/translate-test/test-{lang}-en-translated.tsv", "xnli/translate-test/test-{lang}-en-translated.tsv"),
    ),
}

_OUTPUTS = {RUN, EVALUATION, SERIES, SUITE}
_LANGUAGE = {code: name for name, code in CODES.items()}


def files_below(folder: Path) -> dict[str, list[Path]]:
    """Returns file name → the files of that name below the folder, sorted. Links to folders are followed once. Hidden
    folders and outputs of the trainer, whose predictions have the names of test files, are not searched."""
    found: dict[str, list[Path]] = {}
    seen = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if (real := os.path.realpath(path)) in seen or _OUTPUTS.intersection(names):
            folders.clear()
            continue
        seen.add(real)
        for name in names:
            found.setdefault(name, []).append(Path(path) / name)
    return {name: sorted(paths) for name, paths in found.items()}


def expected(pattern: str, lang: str) -> str:
    """Returns the pattern for a language, or for MLQA's `de-es`: a context in German with a question in Spanish."""
    context, _, question = lang.partition("-")
    return (
        pattern.replace("{lang}", context)
        .replace("{question}", question or context)
        .replace("{language}", _LANGUAGE.get(context, context))
    )


def find(files: Mapping[str, Sequence[Path]], patterns: Sequence[str], lang: str = "") -> Path | None:
    """Returns the file that a pattern names, also as `.xz`; None if there is none.

    Raises `ConfigError` if several files with different content fit one pattern.
    """
    for pattern in patterns:
        end = expected(pattern, lang)
        name = end.rpartition("/")[2]
        paths = [path for path in (*files.get(name, ()), *files.get(f"{name}.xz", ())) if _ends(path, end)]
        if len({path.read_bytes() for path in paths} if len(paths) > 1 else paths) > 1:
            raise ConfigError(
                f"{end}: {' and '.join(map(str, paths[:2]))} both have this name. Name a narrower folder with --data"
            )
        if paths:
            return paths[0]
    return None


def translated(task: str, part: Literal["train", "test"]) -> tuple[str, ...]:
    """Returns the patterns of a task's translations: a folder of `polyspan-train translate`, or published files."""
    published = PUBLISHED.get(task, Published())
    files = published.translated_train if part == "train" else published.translated_test
    return (f"translations/{task}-{part}", *files)


def find_translations(files: Mapping[str, Sequence[Path]], patterns: Sequence[str], lang: str = "") -> Path | None:
    """Returns the file or dataset folder that a pattern names; None if there is none. Raises as `find` does."""
    for pattern in patterns:
        if path := find(files, (pattern,), lang):
            return path
        if path := find(files, (f"{pattern}/{manifest.FILE_NAME}",), lang):
            return path.parent
    return None


def _ends(path: Path, end: str) -> bool:
    text = "/" + path.as_posix().removesuffix(".xz")
    return text.endswith("/" + end.removesuffix(".xz"))
