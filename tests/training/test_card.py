"""What a model's card tells a reader to do can be done."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.training.tuned import METHODS, Kind, named, save_tuned
from training import cli
from training.recipes.methods import MethodSettings


@pytest.mark.parametrize("case", METHODS, ids=named)
def test_the_code_of_a_card_runs_in_its_folder(
    case: tuple[MethodSettings, Kind],
    xlmr_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    method, kind = case
    folder = save_tuned(tmp_path / "model", xlmr_folder, method, kind)
    card = (folder / "README.md").read_text()
    monkeypatch.chdir(folder)

    codes = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(codes) == 2
    for code in codes:
        exec(compile(code, "README.md", "exec"), {})

    (line,) = re.findall(r"```sh\necho '(.*)' \| polyspan-train predict \.\n```", card)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    cli.main(["predict", "."])
    (answer,) = capsys.readouterr().out.splitlines()
    assert json.loads(answer)["id"] == 1 and "error" not in answer


@pytest.mark.parametrize("case", METHODS, ids=named)
def test_a_card_names_a_pipeline_only_if_transformers_has_it_and_can_read_the_head(
    case: tuple[MethodSettings, Kind], xlmr_folder: Path, tmp_path: Path
) -> None:
    from transformers.pipelines import SUPPORTED_TASKS

    method, kind = case
    card = (save_tuned(tmp_path / "model", xlmr_folder, method, kind) / "README.md").read_text()
    named_pipelines = re.findall(r"^pipeline_tag: (.*)$", card, re.MULTILINE)
    assert len(named_pipelines) == (method.uses_standard_head and kind != "qa")
    assert {*named_pipelines} <= {*SUPPORTED_TASKS}
    assert ("No class or pipeline of transformers" in card) == (not method.uses_standard_head)
