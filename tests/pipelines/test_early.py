"""What is wrong with a command line is told before Beam is imported, which takes a second."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.steps.bitext.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
CLISM = ["clism", "--pair", "en-vi", "--output", "x", "--bitext"]
ANCHOR = ["anchor-mrc", "--lang", "vi", "--output", "x", "--dump"]
HERE = str(ROOT / "pipelines/sample/sample.tsv")

WRONG = {
    "no command": ([], "usage: polyspan-data"),
    "a command": (["clsim"], "Did you mean clism?"),
    "an option": (["clism", "--bitxt", "x"], "--bitxt"),
    "a recipe": (["clism", "--recipe", "clism_papre"], "Did you mean clism_paper?"),
    "a corpus": ([*CLISM, HERE, "no.tsv"], "no.tsv: no such file"),
    "a column": ([*CLISM, f"{HERE}@en,xx"], "the header has no column 'xx'"),
    "a language pair": (["clism", "--pair", "en-vj", "--bitext", HERE], "en-vj"),
    "a number": ([*CLISM, HERE, "--chunk-pairs", "0"], "--chunk-pairs is 0, but must be at least 1"),
    "a dump": ([*ANCHOR, HERE, "no.xml"], "no.xml: no such file"),
    "a language": (["anchor-mrc", "--lang", "xx", "--dump", HERE], "--lang xx"),
    "a mirror": (["fetch", "wikipedia", "--lang", "sw", "--mirror", "nowhere"], "--mirror nowhere"),
    "a model": (["align", "apply", "--model", "no.model"], "no.model: no such file"),
    "links": (["align", "score", "--gold", HERE, "--links", "no.links"], "no.links: no such file"),
    "an option of the demo": (["demo", "--outptu", "x"], "--outptu"),
}


@pytest.mark.parametrize("arguments, said", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_exit_code_2_and_nothing_is_written(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    printed = capsys.readouterr()
    assert ended.value.code == 2 and said in printed.err + printed.out
    assert "Traceback" not in printed.err and not list(tmp_path.iterdir())


def test_none_of_it_imports_beam_or_spacy() -> None:
    code = f"""
import sys
from pipelines.cli import main
for arguments in {[arguments for arguments, _ in WRONG.values()]!r} + [["--version"], ["clism", "--help"]]:
    try:
        main(arguments)
    except SystemExit:
        pass
    for name in ("apache_beam", "spacy"):
        assert name not in sys.modules, f"{{arguments}} imports {{name}}"
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_help_lists_every_format_of_parallel_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["clism"], ["align", "train"]):
        with pytest.raises(SystemExit):
            cli.main([*command, "--help"])
        listed = "".join(re.sub("[│\\s]", "", line) for line in capsys.readouterr().out.splitlines())
        for format_ in FORMATS.values():
            assert format_.examples and all(example in listed for example in format_.examples)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--version"], ["-V"], ["align", "train", "--version"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 0 and re.match(r"polyspan-data \S+", capsys.readouterr().out)
