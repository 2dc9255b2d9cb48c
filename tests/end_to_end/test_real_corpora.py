"""The job on real sentences, in every kind of language that the table has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.clism import run
from pipelines.recipes import CLISM
from schemas.shards import read_examples
from schemas.verification import find_problems

NTREX = {"de": "deu", "hi": "hin", "ja": "jpn", "ko": "kor", "sw": "swa", "th": "tha", "vi": "vie", "zh": "zho-CN"}


@pytest.mark.real_data
def test_news_in_eight_languages_gives_sound_examples(shared_data, tmp_path):
    folder = shared_data / "bitext" / "ntrex128"
    specs = []
    for lang, code in NTREX.items():
        for name in ("src.eng", f"ref.{code}"):
            lines = (folder / f"newstest2019-{name}.txt").read_text(encoding="utf-8").split("\n")[:150]
            (tmp_path / f"{lang}.{name}").write_text("\n".join(lines), encoding="utf-8")
        specs.append(f"en-{lang}={tmp_path}/{lang}.src.eng,{tmp_path}/{lang}.ref.{code}")
    pairs = tuple(f"en-{lang}" for lang in NTREX)
    manifest = run(replace(CLISM, bitext=tuple(specs), pair=pairs, output=str(tmp_path / "out")))
    assert list(find_problems(tmp_path / "out")) == []
    for pair, counts in manifest.counts.items():
        assert counts.pairs_read == 150 and counts.examples > 75, pair


@pytest.mark.real_data
def test_a_translation_memory_gives_sound_examples(shared_data, tmp_path):
    memory = shared_data / "bitext" / "tico19" / "all.en-ar.tmx"
    config = replace(CLISM, bitext=(str(memory),), pair=("en-ar",), output=str(tmp_path / "out"))
    manifest = run(replace(config, aligner=replace(config.aligner, training_pairs=500)))
    assert manifest.counts["en-ar"].pairs_read == 3071
    assert list(find_problems(tmp_path / "out")) == []
    answers = [
        example.target_text[question.answer_start_char : question.answer_end_char]
        for example in read_examples(tmp_path / "out")
        for question in example.questions
    ]
    assert sum(answer == "الصين" for answer in answers) > 20  # China
