"""`polyspan-data align`, as a user starts it."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.align import commands, links
from pipelines.align.commands import align_file, apply, train
from pipelines.align.config import AlignApplyConfig, AlignFileConfig, AlignTrainConfig
from pipelines.align.inputs import Texts
from pipelines.align.pharaoh import format_links
from pipelines.align.training import training_corpus
from pipelines.aligner import AlignerConfig, AlignmentModel
from pipelines.aligner import train as train_model
from pipelines.clism import run
from pipelines.recipes import CLISM
from pipelines.steps.bitext.readers import expand_bitext
from pipelines.steps.common.aligner_models import training_text
from schemas import manifest as manifests
from schemas.errors import ConfigError, InputError
from schemas.languages import LanguagePair

SAMPLE = str(package_files("pipelines") / "sample" / "sample.tsv")
SENTENCES = [("a b", "x y"), ("b a", "y x"), ("a c", "x z"), ("c b", "z y"), ("c a b", "z x y")] * 4
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two line-aligned files and the model that was trained on them."""
    folder = tmp_path_factory.mktemp("align")
    for side, name in enumerate(("text.en", "text.vi")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in SENTENCES), encoding="utf-8")
    (folder / "one").write_text("a ||| x\n")
    keep = replace(AlignTrainConfig().filters, drop_duplicates=False)
    train(training(folder, model=str(folder / "m.model"), filters=keep))
    return folder


@pytest.fixture(scope="module")
def nameless(folder: Path) -> str:
    """The path of the same model without its languages, as a library's caller saves it."""
    path = f"{folder}/nameless.model"
    replace(AlignmentModel.load(f"{folder}/m.model"), text=None).save(path)
    return path


def training(folder: Path, **changes: object) -> AlignTrainConfig:
    config = AlignTrainConfig(bitext=(f"{folder}/text.en,{folder}/text.vi",), pair=("en-vi",), tokenized=True)
    return replace(config, **changes)


def aligned(folder: Path, output: Path, **changes: object) -> list[str]:
    """The lines that `apply` writes."""
    apply(replace(AlignApplyConfig(model=f"{folder}/m.model", tokenized=True, output=str(output)), **changes))
    text = output.read_text(encoding="utf-8")
    assert not text or text.endswith("\n")
    return text.splitlines()


def command(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "align", *arguments],
        input=given,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


# --- train ------------------------------------------------------------------------------------------------------------


def test_the_model_and_the_dataset_that_it_makes_are_those_of_the_job_that_trains_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligner = AlignerConfig(training_pairs=150)  # so that both draw a sample
    config = replace(CLISM, bitext=(SAMPLE,), pair=("en-vi",), aligner=aligner, seed=3)
    train(AlignTrainConfig((SAMPLE,), ("en-vi",), f"{tmp_path}/m.model", aligner=aligner, seed=3))
    with monkeypatch.context() as patched:
        patched.setattr("pipelines.runtime.job_output._tidy", lambda folder: None)  # which deletes the job's model
        run(replace(config, output=f"{tmp_path}/own"))
    (model,) = (tmp_path / "own").rglob("en-vi.model")
    assert model.read_bytes() == (tmp_path / "m.model").read_bytes()
    given = replace(aligner, model=f"{tmp_path}/m.model")
    run(replace(config, output=f"{tmp_path}/given", aligner=given))
    own, other = (manifests.load(tmp_path / name) for name in ("own", "given"))
    assert own.totals.examples > 100
    assert [shard.sha256 for shard in own.shards] == [shard.sha256 for shard in other.shards]


def test_the_model_does_not_depend_on_how_the_text_is_stored(folder: Path, tmp_path: Path) -> None:
    keep = replace(AlignTrainConfig().filters, drop_duplicates=False)
    with gzip.open(tmp_path / "text.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{source}\t{target}\n" for source, target in SENTENCES)
    train(training(folder, bitext=(f"{tmp_path}/text.tsv.gz@1,2",), model=f"{tmp_path}/m.model", filters=keep))
    assert (tmp_path / "m.model").read_bytes() == (folder / "m.model").read_bytes()


def test_repeated_pairs_and_pairs_without_words_do_not_train(folder: Path, tmp_path: Path) -> None:
    text = training(folder).bitext[0]
    rejects: dict[str, int] = Counter()
    files = expand_bitext([text], [LanguagePair("en", "vi")])
    corpus = training_corpus(files, (str.split, str.split), training(folder), rejects)
    assert len(corpus) == 5 and rejects == {"duplicate": 15}
    (tmp_path / "text.en").write_text("\n a\n")
    (tmp_path / "text.vi").write_text("b\na \n")
    with pytest.raises(InputError, match=r"no sentence pair .* empty_side 1, identical_sides 1\."):
        train(training(tmp_path, model=f"{tmp_path}/m.model"))
    assert not (tmp_path / "m.model").exists()


def test_several_language_pairs_are_trained_each_on_corpora_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Models, the same as one command for each would make."""
    (tmp_path / "text.hi").write_text("".join(f"{target.upper()}s\n" for _, target in SENTENCES))
    for name in ("text.en", "text.vi"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "more.tsv").write_text("b c\ty z\n")
    own = f"en-vi={tmp_path}/more.tsv@1,2"
    both = training(
        tmp_path,
        bitext=(f"{tmp_path}/text.{{source}},{tmp_path}/text.{{target}}", own),
        pair=("en-vi", "en-hi"),
        model=f"{tmp_path}/{{pair}}.model",
    )
    told = train(both)
    assert "en-vi.model, trained on 6 sentence pairs" in told and "en-hi.model, trained on 5 sentence pairs" in told
    for pair, bitext in (("en-vi", (both.bitext[0], own)), ("en-hi", both.bitext[:1])):
        train(training(tmp_path, bitext=bitext, pair=(pair,), model=f"{tmp_path}/one"))
        assert (tmp_path / "one").read_bytes() == (tmp_path / f"{pair}.model").read_bytes()
        (tmp_path / "one").unlink()


def test_an_error_in_the_last_language_pair_comes_before_the_first_is_trained(folder: Path, tmp_path: Path) -> None:
    both = training(folder, pair=("en-vi", "en-hi"), model=f"{tmp_path}/{{pair}}.model")
    vi = f"en-vi={both.bitext[0]}"
    with pytest.raises(ConfigError, match="en-hi: no --bitext is read for this pair"):
        train(replace(both, bitext=(vi,)))
    (tmp_path / "en-hi.model").write_text("precious")
    with pytest.raises(ConfigError, match=r"en-hi.model: the file is there already"):
        train(replace(both, bitext=(vi, f"en-hi={both.bitext[0]}")))
    assert os.listdir(tmp_path) == ["en-hi.model"]


def test_threads_change_neither_the_model_nor_the_links(folder: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        train(AlignTrainConfig((SAMPLE,), ("en-vi",), f"{tmp_path}/{threads}", threads=threads))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()
    two = {"source": f"{folder}/text.en", "target": f"{folder}/text.vi", "scores": True, "overwrite": True}
    for symmetrize in ("posterior", "grow-diag-final-and"):
        links = [aligned(folder, tmp_path / "out", **two, symmetrize=symmetrize, threads=n) for n in (1, 3)]
        assert links[0] == links[1] and any(links[0])


def test_every_pass_tells_how_likely_the_corpus_is(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        train(training(folder, model=f"{tmp_path}/m.model", aligner=AlignerConfig(initial_passes=1, hmm_passes=1)))
    assert re.search(r"pass 1 of 2 \(Model 2\): log-likelihood -\d+\.\d{4} a word", caplog.text)
    assert re.search(r"pass 2 of 2 \(HMM\): log-likelihood -\d+\.\d{4} a word", caplog.text)


def test_a_model_that_is_there_is_replaced_only_on_demand(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.model"
    model.write_text("precious")
    with pytest.raises(ConfigError, match="--overwrite"):
        train(training(folder, model=str(model)))
    assert model.read_text() == "precious"
    assert "trained on 5 sentence pairs" in train(training(folder, model=str(model), overwrite=True))
    AlignmentModel.load(str(model))
    assert os.listdir(tmp_path) == ["m.model"]


def test_a_prior_lends_its_words_and_counts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.en").write_text("d a\na d\n")
    (tmp_path / "text.vi").write_text("w x\nx w\n")
    told = train(training(tmp_path, model=f"{tmp_path}/m.model", prior=f"{folder}/m.model"))
    assert "trained on 2 sentence pairs and a prior" in told
    older, pairs = AlignmentModel.load(f"{folder}/m.model"), [(["d", "a"], ["w", "x"]), (["a", "d"], ["x", "w"])]
    model = AlignmentModel.load(f"{tmp_path}/m.model")
    learnt = replace(train_model(pairs, AlignerConfig(), prior=older), text=older.text)
    assert model.fingerprint() == learnt.fingerprint()
    assert [link[:2] for link in model.align(["d", "b"], ["w", "y"])] == [(0, 0), (1, 1)]


LINES = "".join(f"{source} ||| {target}\n" for source, target in SENTENCES)


@pytest.mark.parametrize("name", ["text.en-vi", "text.gz", "tab.tsv", "-"])
def test_one_file_of_both_sides_trains_the_model_that_two_files_do(folder: Path, tmp_path: Path, name: str) -> None:
    lines = LINES.replace(" ||| ", "\t") if name == "tab.tsv" else LINES
    path = tmp_path / name
    path.write_bytes(gzip.compress(lines.encode()) if name == "text.gz" else lines.encode())
    done = command(
        *("train", "--input", "-" if name == "-" else str(path), "--format", "tsv" if name == "tab.tsv" else "|||"),
        *("--pair", "en-vi", "--tokenized", "--filters.no-drop-duplicates", "--model", f"{tmp_path}/m.model"),
        given=lines.encode() if name == "-" else b"",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.model").read_bytes() == (folder / "m.model").read_bytes()


def test_any_language_is_trained_and_aligned_where_its_words_are_found(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(LINES)
    for pair in ("en-sl", "eng_Latn-slv_Latn"):
        config = AlignTrainConfig(pair=(pair,), tokenized=True, input=f"{tmp_path}/one", model=f"{tmp_path}/{pair}")
        assert "clism" not in train(config)  # which knows neither language's words
        given = {"model": f"{tmp_path}/{pair}", "input": f"{tmp_path}/one", "overwrite": True}
        links = aligned(tmp_path, tmp_path / "out", tokenized=False, **given)  # the model remembers
        assert links == aligned(tmp_path, tmp_path / "out", pair=pair, **given) and links[0] == "0-0 1-1"
        with pytest.raises(ConfigError, match=f"was trained on {pair}"):
            aligned(tmp_path, tmp_path / "out", pair="en-hr", **given)
    moses = (f"{tmp_path}/text.{{source}},{tmp_path}/text.{{target}}", f"eng_Latn-slv_Latn={tmp_path}/one.tsv@1,2")
    (tmp_path / "text.eng_Latn").write_text("a\nb\n")
    (tmp_path / "text.slv_Latn").write_text("x\ny\n")
    (tmp_path / "one.tsv").write_text("c\tz\n")
    told = train(AlignTrainConfig(moses, ("eng_Latn-slv_Latn",), f"{tmp_path}/m.model", tokenized=True))
    assert "trained on 3 sentence pairs" in told


def test_nothing_is_written_over_what_is_read(folder: Path, tmp_path: Path) -> None:
    one, model = tmp_path / "one", tmp_path / "m.model"
    one.write_text(LINES)
    model.write_bytes((folder / "m.model").read_bytes())
    os.symlink(one, tmp_path / "link")
    for arguments in (
        ("run", f"{one}", "--output", f"{one}"),
        ("run", f"{one}", "--model", f"{tmp_path}/link"),
        ("train", "--pair", "en-vi", "--tokenized", "--input", f"{one}", "--model", f"{tmp_path}/./one"),
        ("train", "--pair", "en-vi", "--tokenized", "--bitext", f"{one},{folder}/text.vi", "--model", f"{one}"),
        ("apply", "--model", f"{model}", "--input", f"{one}", "--output", f"{one}"),
        ("apply", "--model", f"{model}", "--input", f"{one}", "--output", f"{model}"),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["align", *arguments, "--overwrite"])
        assert stopped.value.code == 2
        assert one.read_text() == LINES and model.read_bytes() == (folder / "m.model").read_bytes()


def test_a_failing_command_keeps_the_old_file_and_destroys_no_other(folder: Path, tmp_path: Path) -> None:
    for name in ("out", "out.partial"):
        (tmp_path / name).write_text("precious")
    (tmp_path / "one").write_text("a ||| x\nbroken\n")
    with pytest.raises(InputError, match="one:2"):
        aligned(folder, tmp_path / "out", input=f"{tmp_path}/one", overwrite=True)
    assert (tmp_path / "out").read_text() == "precious"
    (tmp_path / "one").write_text("a ||| x\n")
    assert aligned(folder, tmp_path / "out", input=f"{tmp_path}/one", overwrite=True) == ["0-0"]
    assert (tmp_path / "out.partial").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["one", "out", "out.partial"]


def test_a_link_keeps_leading_to_the_file_and_a_device_stays_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    os.symlink("real", tmp_path / "out")
    (tmp_path / "one").write_text("a ||| x\n")
    assert aligned(folder, tmp_path / "out", input=f"{tmp_path}/one", overwrite=True) == ["0-0"]
    assert os.readlink(tmp_path / "out") == "real" and (tmp_path / "real").read_text() == "0-0\n"
    assert aligned(folder, Path("/dev/null"), input=f"{tmp_path}/one") == []
    assert Path("/dev/null").is_char_device()


def test_a_file_that_cannot_be_written_is_told_in_words(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    script = 'ulimit -f 0; exec "$0" -m pipelines.cli align apply --model "$1" --output "$2" --overwrite'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, f"{folder}/m.model", f"{tmp_path}/out"],
        input=b"a ||| x\n",
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1 and b"out: cannot be written: File too large" in done.stderr
    assert b"Traceback" not in done.stderr and os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "old"


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_file_of_ours(folder: Path, tmp_path: Path, number: int, code: int) -> None:
    for arguments in (["apply", "--model", f"{folder}/m.model", "--output", f"{tmp_path}/out"], ["run", "-"]):
        job = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli", "align", *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        )
        deadline = time.monotonic() + 60
        while not os.listdir(tmp_path):
            assert job.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        job.send_signal(number)
        _, told = job.communicate()
        assert job.returncode == code and b"Nothing is kept of an unfinished file" in told and b"Traceback" not in told
        assert os.listdir(tmp_path) == []


# --- both in one step -------------------------------------------------------------------------------------------------


def test_one_step_gives_the_links_of_training_and_applying(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"{LINES}\nd ||| w\n")
    one = f"{tmp_path}/one"
    done = command(one, "--scores", "--model", f"{tmp_path}/kept")
    assert done.returncode == 0, done.stderr
    train(AlignTrainConfig((), ("en-vi",), f"{tmp_path}/m.model", input=one, tokenized=True))
    links = aligned(tmp_path, tmp_path / "out", input=one, scores=True)
    assert done.stdout.decode().splitlines() == links and links[-2] == "" and links[0].startswith("0-0:")
    given = {"model": f"{tmp_path}/kept", "input": one, "scores": True, "overwrite": True}
    assert aligned(tmp_path, tmp_path / "out", **given) == links


def test_one_step_reads_a_pipe_and_takes_its_options_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "train").write_text(LINES)
    expected = command("run", f"{tmp_path}/train", "--symmetrize", "union").stdout
    assert expected.count(b"\n") == len(SENTENCES)
    assert command("-", "--symmetrize", "union", given=LINES.encode()).stdout == expected
    assert command("--symmetrize", "union", "-", given=LINES.encode()).stdout == expected
    assert command(f"{tmp_path}/train", "--symmetrize", "union", "--output", f"{tmp_path}/links").stdout == b""
    assert (tmp_path / "links").read_bytes() == expected


def test_one_step_finds_words_as_the_pair_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").write_text("a b! ||| x y!\na ||| x\n")
    for pair, words in (("en-zh", "a b ! ||| x y ! |||"), ("", "a b! ||| x y! |||")):
        output = tmp_path / f"out{pair}"
        align_file(AlignFileConfig(f"{tmp_path}/one", pair=pair, words=True, output=str(output)))
        assert output.read_text().startswith(words)


# --- apply ------------------------------------------------------------------------------------------------------------


def test_every_form_of_input_gives_a_line_of_links_for_a_line_of_text(folder: Path, tmp_path: Path) -> None:
    lines = [("a b", "x y"), ("", ""), ("b c", "z y"), ("", "x"), ("a", "x")]
    expected = ["0-0 1-1", "", "0-1 1-0", "", "0-0"]
    out = tmp_path / "out"
    (tmp_path / "one").write_text("".join(f"{s} ||| {t}\n" if s or t else "\n" for s, t in lines))
    assert aligned(folder, out, input=f"{tmp_path}/one") == expected
    (tmp_path / "tab").write_text("".join(f"{s}\t{t}\tz\n" if s or t else "\n" for s, t in lines))
    assert aligned(folder, out, input=f"{tmp_path}/tab", format="tsv", overwrite=True) == expected
    for side, name in enumerate(("s", "t")):
        (tmp_path / name).write_text("".join(f"{line[side]}\n" for line in lines))
    two = {"source": f"{tmp_path}/s", "target": f"{tmp_path}/t", "overwrite": True}
    assert aligned(folder, out, **two) == expected
    assert aligned(folder, out, **two, symmetrize="grow-diag-final-and") == expected


def test_scores_words_and_thresholds(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("c a ||| z x\n\n")
    out, common = tmp_path / "out", {"input": f"{tmp_path}/one", "overwrite": True}
    model = AlignmentModel.load(f"{folder}/m.model")
    scores = [link.score for link in model.align(["c", "a"], ["z", "x"])]
    assert aligned(folder, out, **common, scores=True) == [f"0-0:{scores[0]:.4f} 1-1:{scores[1]:.4f}", ""]
    assert aligned(folder, out, **common, words=True) == ["c a ||| z x ||| 0-0 1-1", " |||  |||"]
    (tmp_path / "one").write_text("c q ||| z q r\n")
    all_links = aligned(folder, out, **common, min_score=0.0)[0].split()
    sure_links = aligned(folder, out, **common, min_score=0.9)[0].split()
    assert set(all_links) > set(aligned(folder, out, **common)[0].split()) >= set(sure_links) >= {"0-0"}


def test_languages_without_spaces_are_aligned_by_their_words(nameless: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a b! ||| x y!\n")
    changes = {"model": nameless, "pair": "en-zh", "tokenized": False, "words": True}
    assert aligned(tmp_path, tmp_path / "out", input=f"{tmp_path}/one", **changes) == [
        "a b ! ||| x y ! ||| 0-0 1-1 2-2"
    ]


def test_words_are_found_as_the_model_says_unless_the_user_does(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"{folder}/text.en,{folder}/text.vi"
    train(AlignTrainConfig((text,), ("en-vi",), f"{tmp_path}/m.model"))
    (tmp_path / "one").write_text("a b! ||| x y!\n")
    one = {"input": f"{tmp_path}/one", "words": True, "overwrite": True, "tokenized": False}
    out = tmp_path / "out"
    assert aligned(tmp_path, out, **one)[0].startswith("a b ! ||| x y ! |||")
    assert aligned(tmp_path, out, **one, pair="en-vi")[0].startswith("a b ! ||| x y ! |||")
    assert aligned(folder, out, **one)[0].startswith("a b! ||| x y! |||")  # white space parted its words
    assert not caplog.records
    assert aligned(folder, out, **one, pair="en-vi")[0].startswith("a b ! ||| x y ! |||")
    assert "words of 'vi' were found with white space, but these are found with moses:vi, sacremoses" in caplog.text
    for pair in ("en-ar", "vi-en"):
        with pytest.raises(ConfigError, match=f"--pair {pair}: .*m.model was trained on en-vi"):
            aligned(folder, out, **one, pair=pair)


def test_another_version_of_a_tokenizer_is_told_of(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = AlignmentModel.load(f"{folder}/m.model")
    older = training_text(LanguagePair("en", "vi"))
    older = replace(older, words=(older.words[0], {**older.words[1], "sacremoses": "0.0.1"}))
    replace(model, text=older).save(f"{tmp_path}/m.model")
    (tmp_path / "one").write_text("a ||| x\n")
    assert aligned(tmp_path, tmp_path / "out", input=f"{tmp_path}/one", tokenized=False, overwrite=True) == ["0-0"]
    assert len(caplog.records) == 1 and "sacremoses 0.0.1" in caplog.text and "'en'" not in caplog.text


def test_unfit_lines_keep_their_place_and_are_counted(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = " ".join(["a"] * 257)
    (tmp_path / "one").write_bytes(f"a ||| \0\n{long} ||| x\na ||| x\n".encode() + b"a ||| \xff\n")
    with caplog.at_level("INFO"):
        assert aligned(folder, tmp_path / "out", input=f"{tmp_path}/one") == ["", "", "0-0", ""]
    assert "unfit: invalid_utf8 1, nul_character 1, too_long 1" in caplog.text


def test_a_line_without_both_sides_stops_with_its_number_and_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a ||| x\na\tx\n")
    with pytest.raises(InputError, match=r"one:2: expected source \|\|\| target"):
        aligned(folder, tmp_path / "out", input=f"{tmp_path}/one")
    assert os.listdir(tmp_path) == ["one"]


def test_blocks_bound_the_memory_and_change_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "BLOCK_PAIRS", 15)

    def peak(lines: int) -> int:
        path, out = tmp_path / f"{lines}", tmp_path / "out"
        path.write_text("".join(f"{s} ||| {t}\n" for s, t in SENTENCES) * (lines // len(SENTENCES)))
        config = AlignApplyConfig(f"{folder}/m.model", str(path), tokenized=True, output=str(out), overwrite=True)
        tracemalloc.start()
        apply(config)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert out.read_text().splitlines() == expected * (lines // len(SENTENCES))
        return found

    two = {"source": f"{folder}/text.en", "target": f"{folder}/text.vi"}
    expected = aligned(folder, tmp_path / "all", **two)
    peak(20)  # what is imported and cached once
    assert peak(2000) < 1.5 * peak(200)


NEW_LINES = ["d a ||| x w", "", "b d ||| y w", "d ||| w", "d b a ||| w x y"]


def test_a_model_adapts_to_the_words_of_the_input(folder: Path, tmp_path: Path) -> None:
    one, out = tmp_path / "one", tmp_path / "out"
    one.write_text("".join(f"{line}\n" for line in NEW_LINES))
    common = {"input": str(one), "overwrite": True, "scores": True}
    lines = aligned(folder, out, adapt=True, **common)
    assert [line.replace(":", " ").split()[::2] for line in (lines[0], lines[3])] == [["0-1", "1-0"], ["0-0"]]
    assert lines != aligned(folder, out, **common)
    one.write_text("".join(f"{line}\n" for line in reversed(NEW_LINES)))
    assert aligned(folder, out, adapt=True, **common) == lines[::-1]
    model, pairs = AlignmentModel.load(f"{folder}/m.model"), [line.partition(" ||| ")[::2] for line in NEW_LINES]
    words = [(source.split(), target.split()) for source, target in pairs]
    links = train_model(words, model.config, prior=model).align_batch(words)
    assert lines == [format_links(found, True) for found in links]


def test_of_a_large_input_a_sample_is_adapted_to(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = AlignmentModel.load(f"{folder}/m.model")
    replace(model, config=replace(model.config, training_pairs=2, max_words=2)).save(f"{tmp_path}/m.model")
    (tmp_path / "one").write_text("".join(f"{line}\n" for line in NEW_LINES))
    with caplog.at_level("INFO"):
        assert len(aligned(tmp_path, tmp_path / "out", input=f"{tmp_path}/one", adapt=True)) == len(NEW_LINES)
    assert "Adapting to 2 sentence pairs" in caplog.text


def test_a_model_read_by_copy_may_be_cut_while_it_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m.model"
    model.write_bytes((folder / "m.model").read_bytes())

    def texts_later(*_: object) -> Texts:
        model.write_bytes(b"")  # as `cp` does, it keeps the file and cuts it: to look into a mapped one would kill us
        yield from SENTENCES

    monkeypatch.setattr(commands, "read_texts", texts_later)
    assert aligned(tmp_path, tmp_path / "out", copy=True)[0] == "0-0 1-1"


def test_what_cannot_be_read_twice_is_not_adapted_to(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for given in ({}, {"source": f"{folder}/text.en", "target": f"{tmp_path}/pipe"}):
        with pytest.raises(ConfigError, match="--adapt reads the input twice"):
            aligned(folder, tmp_path / "out", adapt=True, **given)


# --- the command line -------------------------------------------------------------------------------------------------


def test_from_standard_input_to_standard_output(folder: Path) -> None:
    done = command("apply", "--model", f"{folder}/m.model", "--tokenized", given=b"a b ||| x y\n\n")
    assert (done.returncode, done.stdout) == (0, b"0-0 1-1\n\n"), done.stderr
    assert b"Aligned 2 lines" in done.stderr


def test_score_reads_what_apply_writes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gold").write_text("".join("0-0 1-1 0?1\n" for _ in SENTENCES))
    aligned(folder, tmp_path / "links", source=f"{folder}/text.en", target=f"{folder}/text.vi", scores=True)
    cli.main(["align", "score", "--gold", f"{tmp_path}/gold", "--links", f"{tmp_path}/links"])
    assert capsys.readouterr().out.startswith("AER 0.0476  precision 0.9091  recall 1.0000  (20 sentences, 44 links")


def test_score_tells_of_gold_that_counts_from_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gold").write_text("1-1 2-2\n2-2\n")
    (tmp_path / "links").write_text("0-0 1-1\n1-1\n")
    arguments = ["align", "score", "--gold", f"{tmp_path}/gold", "--links", f"{tmp_path}/links"]
    cli.main(arguments)
    assert "gold: no link has a word 0" in caplog.text and "--one-based" in caplog.text
    caplog.clear()
    assert not capsys.readouterr().out.startswith("AER 0.0000")
    cli.main([*arguments, "--one-based"])
    assert capsys.readouterr().out.startswith("AER 0.0000") and not caplog.records


TRAIN_EN_HI = ["train", "--pair", "en-hi", "--model", "n"]


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["FOLDER/no.txt"], 2, "FOLDER/no.txt: no such file"),
        (["FOLDER"], 2, "a folder, expected a file"),
        (["FOLDER/*.en"], 2, "a pattern, expected one file"),
        (["FOLDER/text.en", "--pair", "en-sl"], 2, "any language goes: --tokenized"),
        (["FOLDER/text.en", "--aligner.model", "m"], 2, "polyspan-data align apply --model FILE"),
        (["FOLDER/text.en", "--aligner.backoff", "nan"], 2, "--aligner.backoff nan: expected a number above 0"),
        (["FOLDER/text.en", "--aligner.max-words", "20000"], 2, "--aligner.max-words 20000: expected a whole number"),
        (["FOLDER/text.en"], 1, "text.en:1: expected source ||| target (--format |||), found 'a b'"),
        (["/dev/null"], 1, "/dev/null: expected lines, found nothing"),
        (["FOLDER/one", "--output", "FOLDER/x", "--model", "FOLDER/x"], 2, "--output and --model are the same"),
        (["train", "--pair", "en-sl", "--input", "-"], 2, "any language goes: --tokenized"),
        (["train", "--pair", "en-s!", "--tokenized", "--input", "-"], 2, "'s!' is no language code"),
        (["train", "--pair", "sl-sl", "--tokenized", "--input", "-"], 2, "the two languages are the same"),
        (["train", "--pair", "en-vi", "--input", "a", "--bitext", "b"], 2, "either --bitext or --input"),
        (["train", "--pair", "en-vi", "en-hi", "--input", "a"], 2, "is of one language pair, not of 2"),
        (["train", "--pair", "en-vi", "--input", "FOLDER/no", "--model", "n"], 2, "FOLDER/no: no such file"),
        (["apply", "--model", "FOLDER/m.model", "--input", "FOLDER/no"], 2, "FOLDER/no: no such file"),
        (["score", "--gold", "FOLDER/no", "--links", "FOLDER/text.vi"], 2, "FOLDER/no: no such file"),
        (["score", "--gold", "FOLDER/text.vi", "--links", "FOLDER/text.vi"], 2, "--gold and --links are the same"),
        ([], 2, "usage: polyspan-data align COMMAND"),
        (["tran"], 2, "There is no command 'tran'. Did you mean train?"),
        (["train"], 2, "No language pair"),
        (["train", "--pair", "en-vi"], 2, "No corpus"),
        (["train", "--pair", "en-vi", "--bitext", "x.tsv"], 2, "--model FILE"),
        (["train", "--pair", "en-vi", "--bitext", "no.tsv", "--model", "FOLDER/new"], 2, "no.tsv: no such file"),
        (["train", "--pair", "en-vi", "--bitext", "no.tsv", "--model", "FOLDER"], 2, "a folder, expected a file"),
        (["train", "--pair", "en-vi", "--bitext", "x.tsv", "--aligner.model", "m"], 2, "--aligner.model is a model"),
        (["train", "--pair", "en-vi", "--bitext", "no.tsv", "--model", "FOLDER/no/m"], 2, "mkdir -p FOLDER/no"),
        (["train", "--pair", "en-vi", "en-hi", "--bitext", "x.tsv", "--model", "m"], 2, "Put {pair} into the path"),
        (["train", "--pair", "en-vi", "--bitext", "x", "--model", "FOLDER/n", "--threads", "-1"], 2, "--threads -1"),
        (["train", "--pair", "en-vi", "--bitext", "x", "--model", "n", "--prior", "no.m"], 2, "no.m: no such file"),
        ([*TRAIN_EN_HI, "--bitext", "x,y", "--prior", "FOLDER/m.model"], 2, "x: no such file"),
        ([*TRAIN_EN_HI, "--bitext", "FOLDER/text.en,FOLDER/text.vi", "--prior", "FOLDER/m.model"], 2, "on en-vi"),
        (["apply"], 2, "No model"),
        (["apply", "--model", "FOLDER/m.model", "--threads", "-1"], 2, "--threads -1"),
        (["apply", "--model", "no.m"], 2, "no.m: no such file"),
        (
            ["apply", "--model", "FOLDER/m.model", "--source", "FOLDER/text.en", "--target", "no.vi"],
            2,
            "no.vi: no such",
        ),
        (["apply", "--model", "FOLDER/nameless.model"], 2, "--pair en-vi"),
        (["apply", "--model", "FOLDER/m.model", "--pair", "vi-en"], 2, "was trained on en-vi"),
        (["apply", "--model", "FOLDER/m.model", "--pair", "en-xx"], 2, "--pair en-xx"),
        (["apply", "--model", "FOLDER/text.en", "--tokenized"], 1, "expected a word aligner's model"),
        (["apply", "--model", "FOLDER/m.model", "--tokenized", "--source", "a"], 2, "--source FILE and --target FILE"),
        (
            ["apply", "--model", "FOLDER/m.model", "--tokenized", "--min-score", "0.5", "--symmetrize", "union"],
            2,
            "--symmetrize posterior",
        ),
        (["score", "--gold", "FOLDER/text.en"], 2, "No file of links"),
        (["score", "--gold", "FOLDER/text.en", "--links", "no.links"], 2, "no.links: no such file"),
        (["score", "--gold", "FOLDER/text.en", "--links", "FOLDER/text.vi"], 1, "text.vi:1: expected links"),
        (["score", "--", "--runner=x"], 2, "runs on this machine"),
    ],
)
def test_what_cannot_work_says_what_to_do(
    arguments: list[str],
    code: int,
    message: str,
    folder: Path,
    nameless: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["align", *(argument.replace("FOLDER", str(folder)) for argument in arguments)])
    printed = capsys.readouterr()
    assert stopped.value.code == code
    assert message.replace("FOLDER", str(folder)) in printed.out + printed.err


def test_beam_is_not_imported_where_no_path_needs_it(folder: Path) -> None:
    script = "import sys, pipelines.cli; pipelines.cli.main(sys.argv[1:]); assert 'apache_beam' not in sys.modules"
    arguments = ["align", "apply", "--model", f"{folder}/m.model", "--pair", "en-vi", "--output", f"{folder}/links"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=b"a ||| x\n",
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def test_head_may_close_the_pipe(folder: Path) -> None:
    lines = "".join(f"{source} ||| {target}\n" for source, target in SENTENCES * 1000)
    script = '"$0" -m pipelines.cli align apply --model "$1" --tokenized --words | head -1; exit ${PIPESTATUS[0]}'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, f"{folder}/m.model"],
        input=lines.encode(),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"a b ||| x y ||| 0-0 1-1\n" and b"Traceback" not in done.stderr
