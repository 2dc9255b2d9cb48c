"""Published files are found by their names in XTREME's layout and in the authors'."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from schemas.errors import ConfigError
from training.tasks.published import PUBLISHED, expected, files_below, find, find_translations, translated


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    "task, lang, name",
    [
        ("xquad", "de", "xquad/xquad.de.json"),
        ("mlqa", "de-es", "MLQA_V1/test/test-context-de-question-es.json"),
        ("mlqa", "de", "MLQA_V1/test/test-context-de-question-de.json"),
        ("tydiqa", "ar", "tydiqa/tydiqa-goldp-v1.1-dev/tydiqa.goldp.ar.dev.json"),
        ("tydiqa", "ar", "tydiqa-goldp-dev-arabic.json"),
        ("wikiann", "de", "panx/test-de.tsv"),
        ("wikiann", "de", "wikiann/de/test"),
        ("paws_x", "de", "pawsx/test-de.tsv"),
        ("paws_x", "de", "x-final/de/test_2k.tsv"),
        ("xnli", "de", "xnli/test-de.tsv"),
        ("xnli", "de", "XNLI-1.0/xnli.test.tsv"),
    ],
)
def test_a_test_file_is_found_in_both_layouts(task: str, lang: str, name: str, tmp_path: Path) -> None:
    others = ("udpos/test-de.tsv", "xquad/xquad.de.json.md5", "mlqa/dev-context-de-question-es.json")
    files = files_below(touched(tmp_path, name, *others))
    assert find(files, PUBLISHED[task].test, lang) == tmp_path / name


def test_a_compressed_file_and_links_to_folders_are_found(tmp_path: Path) -> None:
    touched(tmp_path / "elsewhere", "train-v1.1.json.xz")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "squad").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "elsewhere")
    files = files_below(tmp_path / "data")
    assert find(files, PUBLISHED["squad"].train) == tmp_path / "data/squad/train-v1.1.json.xz"


def test_files_of_one_name_are_refused_unless_they_are_equal(tmp_path: Path) -> None:
    touched(tmp_path, "one/xquad.de.json", "two/xquad.de.json")
    with pytest.raises(ConfigError, match="both have this name"):
        find(files_below(tmp_path), PUBLISHED["xquad"].test, "de")
    (tmp_path / "two/xquad.de.json").write_text("one/xquad.de.json")
    assert find(files_below(tmp_path), PUBLISHED["xquad"].test, "de") == tmp_path / "one/xquad.de.json"


def test_predictions_in_our_own_outputs_are_not_taken_for_test_files(tmp_path: Path) -> None:
    touched(tmp_path, "runs/one/run.json", "runs/one/results/xquad/predictions/xquad.de.json")
    touched(tmp_path, "suite/suite.json", "suite/submission/xquad.de.json", ".out.new/xquad.de.json")
    assert find(files_below(tmp_path), PUBLISHED["xquad"].test, "de") is None
    touched(tmp_path, "data/xquad.de.json")
    assert find(files_below(tmp_path), PUBLISHED["xquad"].test, "de") == tmp_path / "data/xquad.de.json"


def test_a_missing_file_has_an_expected_name(tmp_path: Path) -> None:
    assert find(files_below(tmp_path), PUBLISHED["mlqa"].test, "de-es") is None
    assert expected(PUBLISHED["mlqa"].test[0], "de-es") == "test-context-de-question-es.json"
    assert expected("tydiqa-goldp-dev-{language}.json", "sw") == "tydiqa-goldp-dev-swahili.json"


@pytest.mark.parametrize(
    "task, part, name",
    [
        ("squad", "train", "squad/squad.translate.train.en-de.json"),
        ("xquad", "test", "XQuAD/translate-test/xquad.translate.test.de-en.json"),
        ("paws_x", "train", "PAWSX/translate-train/en-de-translated.tsv"),
        ("paws_x", "train", "x-final/de/translated_train.tsv"),
        ("paws_x", "test", "pawsx/translate-test/test-de-en-translated.tsv"),
        ("xnli", "train", "XNLI/translate-train/en-de-translated.tsv"),
        ("wikiann", "train", "translations/wikiann-train/manifest.json"),
    ],
)
def test_translations_are_found_by_their_published_names_and_as_folders(
    task: str, part: Literal["train", "test"], name: str, tmp_path: Path
) -> None:
    other = "xnli" if task == "paws_x" else "pawsx"  # both have files of the same name
    files = files_below(touched(tmp_path, name, f"{other}/other/en-de-translated.tsv"))
    found = tmp_path / name.removesuffix("/manifest.json")
    assert find_translations(files, translated(task, part), "de") == found
    assert find_translations(files, translated(task, part), "es") == (found if "wikiann" in name else None)
