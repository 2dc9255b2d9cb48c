"""`polyspan-train compare-languages` on small files with small models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from schemas.errors import ConfigError, InputError
from schemas.runtime.shown_paths import shown_path
from tests.training.people import PEOPLE, PLACES
from tests.training.tuned import save_tuned
from training.compare_languages import parallel_records, run
from training.metrics.cka import cka
from training.recipes.language_comparison import LanguageComparisonConfig
from training.recipes.methods import Plain

TEXTS = {"en": "{} lives in {}.", "de": "{} wohnt in {}.", "ar": "تعيش {} في {}"}


def xquad(folder: Path, lang: str, numbers: list[int]) -> Path:
    paragraphs = []
    for number in numbers:
        person, place = PEOPLE[number % 8], PLACES[(number * 3) % 8]
        context = TEXTS[lang].format(person, place)
        answers = [{"text": place, "answer_start": context.index(place)}]
        qas = [{"id": f"q{number}", "question": f"{person} {number}?", "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    path = folder / f"xquad.{lang}.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}), "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    """Thirty questions in three languages, in other orders, of which "ar" lacks some."""
    numbers = list(range(30))
    return (
        xquad(tmp_path, "en", numbers),
        xquad(tmp_path, "de", numbers[::-1]),
        xquad(tmp_path, "ar", [number for number in numbers if number % 5]),
    )


def config(models: tuple[str, ...], files: tuple[Path, ...], output: Path, **fields: Any) -> LanguageComparisonConfig:
    return LanguageComparisonConfig(models, "xquad", files, str(output), **fields)


def expected_cka(folder: Path, records: dict[str, list[Any]], lang: str) -> float:
    """By Hugging Face's own model, one record at a time, without its special tokens."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    means: dict[str, list[np.ndarray]] = {"en": [], lang: []}
    for name, found in means.items():
        for record in records[name]:
            encoded = tokenizer(record.query, record.context, return_tensors="pt", return_special_tokens_mask=True)
            special = encoded.pop("special_tokens_mask")[0].bool()
            with torch.no_grad():
                hidden = model(**encoded).last_hidden_state[0]
            found.append(hidden[~special].mean(dim=0).numpy())
    return cka(np.stack(means["en"]), np.stack(means[lang]))


def test_figures_are_those_of_hugging_faces_model_beside_random_weights(xlmr_folder: Path, files: Any, tmp_path: Path):
    given = config((str(xlmr_folder),), files, tmp_path / "out")
    printed = run(given)
    about = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))
    model, random = about["models"]
    records, _ = parallel_records(given)
    assert about["records"] == 24 and model["cka"]["en"] == pytest.approx(1.0)
    for lang in ("de", "ar"):
        assert model["cka"][lang] == pytest.approx(expected_cka(xlmr_folder, records, lang), abs=1e-5)
        assert random["cka"][lang] != model["cka"][lang]
    assert random["name"].endswith("random weights") and model["cka_mean"] == pytest.approx(
        (model["cka"]["de"] + model["cka"]["ar"]) / 2
    )
    assert "CKA with en" in printed and (tmp_path / "out" / "comparison.txt").read_text("utf-8") == printed
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert page.count("<svg") == 2 and "Languages compared" in page


def test_several_models_are_compared_in_one_picture(xlmr_folder: Path, files: Any, tmp_path: Path) -> None:
    """A fine-tuned model has the architecture of the pre-trained one, so random weights are shown once."""
    tuned = save_tuned(tmp_path / "tuned", xlmr_folder, Plain(), "qa")
    run(config((str(xlmr_folder), str(tuned)), files, tmp_path / "out", records=10))
    before, after, _ = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))["models"]
    assert before["cka"] == after["cka"]  # its encoder is the same
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert page.count(f">{shown_path(tuned)}<") >= 1 and str(tmp_path) not in page


def test_the_same_input_gives_the_same_files_and_an_old_comparison_is_replaced(
    xlmr_folder: Path, files: Any, tmp_path: Path
) -> None:
    given = config((str(xlmr_folder),), files, tmp_path / "out", records=10)
    run(given)
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    run(given)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first
    (tmp_path / "out" / "mine.txt").write_text("notes")
    with pytest.raises(ConfigError, match=r"mine\.txt"):
        run(given)


def test_records_are_joined_by_id_and_sampled_by_hash(files: Any, tmp_path: Path) -> None:
    by_lang, _ = parallel_records(config(("m",), files, tmp_path / "out", records=7))
    ids = {lang: [record.id for record in found] for lang, found in by_lang.items()}
    assert ids["en"] == ids["de"] == ids["ar"] and len(ids["en"]) == 7
    more, _ = parallel_records(config(("m",), files, tmp_path / "out", records=12))
    assert [record.id for record in more["en"]][:7] == ids["en"]
    other, _ = parallel_records(config(("m",), files, tmp_path / "out", records=7, seed=2))
    assert [record.id for record in other["en"]] != ids["en"]


def test_what_cannot_be_compared_is_refused(xlmr_folder: Path, files: Any, tmp_path: Path) -> None:
    models, out = (str(xlmr_folder),), tmp_path / "out"
    with pytest.raises(ConfigError, match="one file: expected one for each of two languages"):
        run(config(models, files[:1], out))
    with pytest.raises(ConfigError, match="--source-lang fr: the files are of en, de, ar"):
        run(config(models, files, out, source_lang="fr"))
    with pytest.raises(ConfigError, match="no models"):
        run(config((), files, out))
    with pytest.raises(ConfigError, match="given twice"):
        run(config(models * 2, files, out))
    (tmp_path / "again").mkdir()
    again = shutil.copy(files[1], tmp_path / "again" / "xquad.de.json")
    with pytest.raises(InputError, match="a second file of language 'de'"):
        run(config(models, (*files, Path(again)), out))
    elsewhere = xquad(tmp_path / "again", "ar", [100, 101])
    with pytest.raises(InputError, match="0 records are in all 2 files"):
        run(config(models, (files[0], elsewhere), out))
    for lang in ("en", "de"):
        (tmp_path / f"test-{lang}.tsv").write_text("a b\tc d\tneutral\n", "utf-8")
    pairs = tuple(tmp_path / f"test-{lang}.tsv" for lang in ("en", "de"))
    with pytest.raises(InputError, match="its records have no ids"):
        run(LanguageComparisonConfig(models, "xnli", pairs, str(out)))
