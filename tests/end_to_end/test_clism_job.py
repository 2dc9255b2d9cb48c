"""The whole CLISM job, as a user starts it: bytes, counts, stops, formats, errors."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path

import pyarrow as pa
import pytest
from apache_beam.io.localfilesystem import LocalFileSystem

from pipelines import cli, clism_transforms
from pipelines.align.config import AlignTrainConfig
from pipelines.align.inputs import tokenizers_of
from pipelines.align.training import training_corpus
from pipelines.aligner import ALIGNERS, AlignerKind, NumberedPairs, train
from pipelines.aligner.links import Link
from pipelines.clism import run
from pipelines.recipes import CLISM
from pipelines.steps.bitext.formats import FORMATS, BitextFile, Format, example_help
from pipelines.steps.bitext.readers import expand_bitext
from pipelines.steps.bitext.tmx import Unit
from pipelines.steps.common.aligner_models import training_text
from pipelines.steps.common.files import FileDigest, read_lines
from schemas import manifest as manifests
from schemas.clism import problems
from schemas.errors import ConfigError, DatasetError, InputError
from schemas.languages import LanguagePair
from schemas.shards import read_examples
from schemas.verification import find_problems

SAMPLE = str(package_files("pipelines") / "sample" / "sample.tsv")


def sample_lines(lang: str, count: int | None = None) -> list[str]:
    header, *rows = (line.split("\t") for line in Path(SAMPLE).read_text(encoding="utf-8").splitlines())
    return [row[header.index(lang)] for row in rows][:count]


def config(output: Path, **changes):
    return replace(CLISM, bitext=(SAMPLE,), pair=("en-vi",), output=str(output), **changes)


def digests(folder: Path) -> dict[str, str]:
    """Every file of a dataset by its path, with a checksum."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """The sample's English-Vietnamese pairs, made in process in chunks of 50."""
    folder = tmp_path_factory.mktemp("clism") / "en-vi"
    run(config(folder, chunk_pairs=50, rows_per_shard=100))
    return folder


def test_every_answer_is_a_span_of_its_text_and_every_record_is_accounted_for(dataset):
    manifest = manifests.load(dataset)
    counts = manifest.counts["en-vi"]
    assert manifest.problems() == []
    assert counts.pairs_read == len(sample_lines("vi"))
    assert counts.examples > 150 and counts.questions > 200
    assert counts.pair_rejects["duplicate"] == 1
    examples = list(read_examples(dataset))
    assert [problem for example in examples for problem in problems(example)] == []
    assert len({example.id for example in examples}) == len(examples) == counts.examples
    lines = [example.line for example in examples]
    assert lines == sorted(lines)


def test_the_demo_corpus_yields_right_answers(dataset):
    right = wrong = 0
    for example in read_examples(dataset):
        for question in example.questions:
            mention = example.source_text[question.source_start_char : question.source_end_char]
            answer = example.target_text[question.answer_start_char : question.answer_end_char]
            if mention in ("Hanoi", "Cairo", "Geneva"):
                right += answer in ("Hà Nội", "Cairo", "Geneva")
                wrong += answer not in ("Hà Nội", "Cairo", "Geneva")
    assert right >= 10 and wrong <= 0.2 * right


def test_a_manifest_says_what_decided_the_bytes(dataset):
    manifest = manifests.load(dataset)
    assert manifest.config["seed"] == 0 and "output" not in manifest.config
    assert {"pyarrow", "en.tokenizer", "vi.tokenizer"} <= manifest.versions.keys()
    (file,) = manifest.inputs
    assert file.sha256 == hashlib.sha256(Path(SAMPLE).read_bytes()).hexdigest()
    assert not (dataset / "work").exists()


def test_the_job_and_align_train_refuse_the_same_pairs_for_the_same_reasons(tmp_path):
    lines = [
        ("Anna lives in Hanoi.", "Anna sống ở Hà Nội."),
        ("", "b"),
        ("NATO", "NATO"),
        ("a " * 129, "b"),
        ("a", "b " * 9),
    ]
    for side, name in enumerate(("text.en", "text.vi")):
        (tmp_path / name).write_text("".join(f"{line[side]}\n" for line in [*lines, *lines]), encoding="utf-8")
    bitext = (f"{tmp_path}/text.en,{tmp_path}/text.vi",)
    manifest = run(replace(config(tmp_path / "out"), bitext=bitext))
    languages, rejects = LanguagePair("en", "vi"), Counter()
    files, tokenizers = expand_bitext(bitext, [languages]), tokenizers_of(training_text(languages))
    corpus = training_corpus(files, tokenizers, AlignTrainConfig(), rejects)
    later = {"no_mention", "no_answer"}
    refused = {
        reason: number for reason, number in manifest.counts["en-vi"].pair_rejects.items() if reason not in later
    }
    assert (
        refused == rejects == {"duplicate": 5, "empty_side": 1, "identical_sides": 1, "too_long": 1, "length_ratio": 1}
    )
    assert len(corpus) == manifest.counts["en-vi"].pairs_read - rejects.total() == 1


def test_a_format_that_is_added_to_the_table_is_listed_expanded_checked_read_and_named_in_the_manifest(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    checked = []

    def read(file: BitextFile, digests: list[FileDigest] | None) -> Iterator[tuple[int, Unit]]:
        for number, line in enumerate(read_lines(file.source_path, digests), 1):
            source, _, target = line.partition(" = ")
            yield number, (source, target)

    dummy = Format(
        examples={"corpus.equal": "two sides of an equation"},
        suffix=".equal",
        match=re.compile(r"([^,]+\.equal)").fullmatch,
        paths=1,
        finds_languages=lambda match: False,
        expand=lambda pair, spec, match: [BitextFile(pair, "", "equal", match[1], match[1])],
        check=lambda file: checked.append(file.source_path),
        read=read,
    )
    monkeypatch.setitem(FORMATS, "equal", dummy)
    for spec in ("no.form", "a.equal,b.equal"):
        with pytest.raises(ConfigError, match=r"corpus\.equal"):
            expand_bitext([spec], [LanguagePair("en", "vi")])
    assert "corpus.equal (two sides of an equation)" in example_help()
    lines = [f"{source} = {target}\n" for source, target in zip(sample_lines("en"), sample_lines("vi"), strict=True)]
    Path("text.equal").write_text("".join(lines), encoding="utf-8")
    manifest = run(replace(config(tmp_path / "out"), bitext=(f"{tmp_path}/text.equal",)))
    assert checked and manifest.config["bitext"] == ["text.equal"]
    assert [(file.corpus, file.path) for file in manifest.inputs] == [("text.equal", "text.equal")]
    assert manifest.counts["en-vi"].pairs_read == len(lines) and manifest.counts["en-vi"].examples > 150


class FirstWordAligner:
    """Links the first words of the two sides. What it saves is its name."""

    def align_batch(self, pairs, *, threads=1):
        return [[Link(0, 0, 0.9)] for _ in pairs]

    def save(self, file):
        file.write(b"first word")


def test_an_aligner_that_is_added_to_the_table_serves_the_job_by_its_name(tmp_path, monkeypatch):
    trained_on = []

    def train_first(pairs, config, text, progress, threads):
        trained_on.append((len(pairs), str(text.pair)))
        return FirstWordAligner()

    def load_first(path, config):
        assert Path(path).read_bytes() == b"first word" and config.min_score == CLISM.aligner.min_score
        return FirstWordAligner()

    kind = AlignerKind(NumberedPairs, train_first, load_first, versions={"first": "7"})
    monkeypatch.setitem(ALIGNERS, "first-word", kind)
    manifest = run(config(tmp_path / "out", aligner=replace(CLISM.aligner, model="first-word")))
    counts = manifest.counts["en-vi"]
    filtered = sum(counts.pair_rejects.values()) - counts.pair_rejects["no_mention"]
    assert trained_on == [(counts.pairs_read - filtered + counts.pair_rejects.get("no_answer", 0), "en-vi")]
    assert manifest.config["aligner"]["model"] == "first-word" and manifest.versions["aligner.first"] == "7"
    examples = list(read_examples(tmp_path / "out"))
    assert examples and {question.answer_start_char for example in examples for question in example.questions} == {0}
    with pytest.raises(ConfigError, match=r"no such file: first-wird\. Did you mean first-word\?"):
        run(config(tmp_path / "other", aligner=replace(CLISM.aligner, model="first-wird")))


def written(folder: Path) -> bytes:
    """All bytes of a folder's files."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_what_is_written_says_nothing_of_the_machine_and_names_each_input_once(tmp_path, monkeypatch):
    (tmp_path / "work" / "data").mkdir(parents=True)
    (tmp_path / "far" / "models").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "far"))
    for lang in ("en", "vi", "ar"):
        lines = "".join(f"{line}\n" for line in sample_lines(lang, 40))
        Path(f"data/text.{lang}").write_text(lines, encoding="utf-8")
    for pair in ("en-vi", "en-ar"):
        train([(["Hanoi"], ["Hà_Nội"])] * 20, CLISM.aligner).save(f"{tmp_path}/far/models/{pair}.model")
    plain = replace(
        CLISM,
        bitext=("data/text.{source},data/text.{target}",),
        pair=("en-vi", "en-ar"),
        aligner=replace(CLISM.aligner, model="../far/models/{pair}.model"),
        output="plain",
    )
    manifest = run(plain)
    assert [(file.corpus, file.path) for file in manifest.inputs] == [
        ("text.en", "data/text.en"),
        ("text.en", "data/text.vi"),
        ("text.en", "data/text.ar"),
    ]
    assert manifest.config["bitext"] == ["data/text.{source},data/text.{target}"]
    assert manifest.config["aligner"]["model"] == "models/{pair}.model"
    full = f"en-vi={tmp_path}/work/data/text.en,{tmp_path}/work/./data/text.vi"
    both = replace(
        plain,
        bitext=(full, full.replace("vi", "ar")),
        aligner=replace(plain.aligner, model=f"{tmp_path}/far/models/{{pair}}.model"),
        output=f"{tmp_path}/work/full",
    )
    again = run(both)
    assert again.inputs == manifest.inputs
    assert again.config | {"bitext": ()} == manifest.config | {"bitext": ()}
    assert again.config["bitext"] == ["en-vi=data/text.en,data/text.vi", "en-ar=data/text.en,data/text.ar"]
    for folder in ("plain", "full"):
        assert str(tmp_path).encode() not in written(Path(folder))
    same = replace(plain, bitext=(f"{tmp_path}/work/data/text.{{source}},{tmp_path}/work/data/text.{{target}}",))
    run(replace(same, output=f"{tmp_path}/work/same", aligner=both.aligner))
    assert digests(tmp_path / "work" / "same") == digests(tmp_path / "work" / "plain")


def test_worker_processes_write_the_same_bytes(dataset, tmp_path):
    run(config(tmp_path / "again", chunk_pairs=50, rows_per_shard=100, workers=3))
    assert digests(tmp_path / "again") == digests(dataset)


def test_a_killed_job_leaves_no_dataset_and_goes_on_to_the_same_bytes(dataset, tmp_path):
    output = tmp_path / "killed"
    command = [sys.executable, "-m", "pipelines.cli", "clism", "--bitext", SAMPLE, "--pair", "en-vi"]
    command += ["--chunk-pairs", "50", "--rows-per-shard", "100", "--output", str(output)]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(output.glob("work/*/tokenized/*.json")):
        assert job.poll() is None and time.monotonic() < deadline, "the job ended before it could be killed"
        time.sleep(0.005)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    with pytest.raises(DatasetError, match="stopped or is still running"):
        manifests.load(output)
    finished = {path: path.stat().st_mtime_ns for path in output.glob("work/*/tokenized/*.json")}
    assert finished
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "Going on with a job that was stopped" in again.stderr
    assert digests(output) == digests(dataset)


def stopped_job(output: Path, **changes) -> Path:
    """A job that was killed in `output` after its first steps; returns its work folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.runtime.dataset_sink.write_manifest", killed)
        with pytest.raises(RuntimeError, match="killed"):
            run(config(output, **changes))
    (work,) = output.glob("work/*")
    return work


def killed(*_):
    raise RuntimeError("killed")


def test_other_arguments_do_not_go_on_with_a_stopped_job_nor_delete_it_unasked(tmp_path):
    work = stopped_job(tmp_path / "out")
    before = digests(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"config\.seed: 0 before, 7 now.*--overwrite"):
        run(config(tmp_path / "out", seed=7))
    assert digests(tmp_path / "out") == before
    run(config(tmp_path / "out", seed=7, overwrite=True))
    assert not work.exists() and manifests.load(tmp_path / "out").config["seed"] == 7


def test_files_in_a_folder_called_work_are_not_taken_for_a_stopped_job(tmp_path):
    mine = tmp_path / "out" / "work" / "0123456789abcdef" / "read" / "00000-0000000.json"
    mine.parent.mkdir(parents=True)
    mine.write_text("{}")
    with pytest.raises(ConfigError, match=r"work/0123456789abcdef/read/00000-0000000\.json"):
        run(config(tmp_path / "out"))
    assert mine.read_text() == "{}"


def test_formats_agree(dataset, tmp_path):
    english, vietnamese = sample_lines("en"), sample_lines("vi")
    (tmp_path / "a.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    (tmp_path / "a.vi").write_text("\n".join(vietnamese) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "a.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{source}\t{target}\n" for source, target in zip(english, vietnamese, strict=True))
    specs = [f"{tmp_path}/a.en,{tmp_path}/a.vi", f"{tmp_path}/a.tsv.gz@1,2"]
    results = []
    for number, spec in enumerate([SAMPLE, *specs]):
        run(replace(config(tmp_path / str(number)), bitext=(spec,)))
        results.append(
            [
                (example.source_text, example.target_text, example.questions)
                for example in read_examples(tmp_path / str(number))
            ]
        )
    assert results[0] == results[1] == results[2]


def test_many_pairs_in_one_run(tmp_path, caplog):
    caplog.set_level("INFO")
    manifest = run(replace(config(tmp_path / "many"), pair=("en-ar", "en-hi", "en-vi", "en-ar")))  # one twice
    assert sorted(manifest.counts) == ["en-ar", "en-hi", "en-vi"]
    by_pair = {name: counts.examples for name, counts in manifest.counts.items()}
    langs = [example.target_lang for example in read_examples(tmp_path / "many")]
    assert {f"en-{lang}": langs.count(lang) for lang in set(langs)} == by_pair
    told = re.findall(r"(en-..): pass \d of 6 .* log-likelihood -\d", caplog.text)
    assert sorted(told) == sorted(6 * list(by_pair))


def test_duplicates_are_found_across_corpora_and_the_first_stays(tmp_path):
    english, vietnamese = sample_lines("en", 40), sample_lines("vi", 40)
    for name in ("a", "b"):
        (tmp_path / f"{name}.en").write_text("\n".join(english), encoding="utf-8")
        (tmp_path / f"{name}.vi").write_text("\n".join(vietnamese), encoding="utf-8")
    specs = tuple(f"{tmp_path}/{name}.en,{tmp_path}/{name}.vi" for name in ("b", "a"))
    manifest = run(replace(config(tmp_path / "out", chunk_pairs=7), bitext=specs))
    assert manifest.counts["en-vi"].pair_rejects["duplicate"] >= 40
    assert {example.corpus for example in read_examples(tmp_path / "out")} == {"b.en"}
    kept = run(replace(config(tmp_path / "kept"), bitext=specs, filters=replace(CLISM.filters, drop_duplicates=False)))
    assert "duplicate" not in kept.counts["en-vi"].pair_rejects


def test_bad_records_are_counted_and_kept_for_reading(tmp_path):
    english = [line.encode() for line in sample_lines("en", 60)]
    vietnamese = [line.encode() for line in sample_lines("vi", 60)]
    vietnamese[3] = b"\xff\xfe broken"
    vietnamese[4] = b"nul \x00 here"
    vietnamese[5] = b""
    english[6] = b"word " * 200
    (tmp_path / "a.en").write_bytes(b"\n".join(english))
    (tmp_path / "a.vi").write_bytes(b"\n".join(vietnamese))
    manifest = run(replace(config(tmp_path / "out"), bitext=(f"{tmp_path}/a.en,{tmp_path}/a.vi",)))
    counts = manifest.counts["en-vi"]
    assert counts.pairs_read == 60 and manifest.problems() == []
    for reason in ("invalid_utf8", "nul_character", "empty_side", "too_long"):
        assert counts.pair_rejects[reason] == 1, reason
    rejects = pa.ipc.open_file(tmp_path / "out" / manifest.rejects[0].file).read_all().to_pylist()
    assert {(reject["reason"], reject["line"]) for reject in rejects} >= {("invalid_utf8", 4), ("too_long", 7)}


@pytest.mark.parametrize("workers", [1, 2])
def test_unequal_files_end_in_a_plain_error_and_no_dataset(tmp_path, workers):
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.vi").write_text("một\nhai\n")
    command = [sys.executable, "-m", "pipelines.cli", "clism", "--bitext", f"{tmp_path}/a.en,{tmp_path}/a.vi"]
    command += ["--pair", "en-vi", "--output", str(tmp_path / "out"), "--workers", str(workers)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    *_, last = ended.stderr.strip().splitlines()
    assert last.startswith("polyspan-data: ") and "has 3 lines" in last and "has 2" in last
    assert not last.endswith("]")  # Beam's "[while running …]"
    with pytest.raises(DatasetError):
        manifests.load(tmp_path / "out")


COMPLETE = ["clism", "--bitext", SAMPLE, "--pair", "en-vi", "--output", "o"]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["clizm"], "Did you mean clism"),
        (["clism", "--biteext", "x"], "--bitext"),
        (["clism", "--bitext", SAMPLE, "--output", "o"], "--pair en-vi"),
        (["clism", "--bitext", SAMPLE, "--pair", "en-vi"], "--output"),
        (["clism", "--bitext", SAMPLE, "--pair", "en", "--output", "o"], "en-vi"),
        (["clism", "--bitext", SAMPLE, "--pair", "en-xx", "--output", "o"], "xx"),
        (["clism", "--bitext", SAMPLE, "--pair", "en-en", "--output", "o"], "same"),
        (["clism", "--bitext", SAMPLE, "--pair", "en-fr", "--output", "o"], "fr"),
        (["clism", "--bitext", "absent.tmx", "--pair", "en-vi", "--output", "o"], "absent.tmx"),
        (["clism", "--recipe", "clism_papr"], "clism_paper"),
        ([*COMPLETE, "--chunk-pairs", "0"], "--chunk-pairs"),
        ([*COMPLETE, "--", "--direct_num_worker=2"], "--direct_num_workers"),
        ([*COMPLETE, "--tagger.model", "en_core_web_sm2"], "en_core_web_sm2"),
        ([*COMPLETE, "--aligner.model", "absent"], "absent"),
    ],
)
def test_arguments_that_cannot_work_end_with_code_2_and_a_hint(arguments, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    said = "".join(capsys.readouterr())
    assert stopped.value.code == 2 and expected in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_is_never_overwritten_unasked(dataset, tmp_path):
    before = digests(dataset)
    with pytest.raises(ConfigError, match=r"config\.rows_per_shard: 100 before, 99 now.*--overwrite"):
        run(config(dataset, chunk_pairs=50, rows_per_shard=99))
    assert digests(dataset) == before


def test_a_given_aligner_that_is_written_over_meanwhile_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "en-vi.model"
    train([(["Hanoi"], ["Hà", "Nội"])] * 20, CLISM.aligner).save(str(path))
    aligner = replace(CLISM.aligner, model=str(path))
    expected = run(config(tmp_path / "before", aligner=aligner))
    load = clism_transforms.load_aligner

    def load_later(*given):
        path.write_bytes(b"")  # as `cp` does, it keeps the file and cuts it
        return load(*given)

    monkeypatch.setattr(clism_transforms, "load_aligner", load_later)
    assert run(config(tmp_path / "after", aligner=aligner)) == expected
    assert path.read_bytes() == b""


def test_a_saved_aligner_is_used_instead_of_training_one(tmp_path):
    from pipelines.aligner import AlignmentModel

    model = train([(["Hanoi"], ["Hà_Nội"])] * 20, CLISM.aligner)
    assert isinstance(model, AlignmentModel)
    with (tmp_path / "en-vi.model").open("wb") as stream:
        model.save(stream)
    aligner = replace(CLISM.aligner, model=str(tmp_path / "{pair}.model"))
    with_model = run(config(tmp_path / "out", aligner=aligner))
    assert with_model.versions["en-vi.aligner"] == model.fingerprint()
    assert with_model.counts["en-vi"].questions != run(config(tmp_path / "own")).counts["en-vi"].questions
    replace(model, text=training_text(LanguagePair("en", "ar"))).save(str(tmp_path / "en-vi.model"))
    with pytest.raises(ConfigError, match=r"--pair en-vi: .*en-vi\.model was trained on en-ar"):
        run(config(tmp_path / "other", aligner=aligner))
    with pytest.raises(ConfigError, match="one model cannot serve"):
        run(
            replace(
                config(tmp_path / "two", aligner=replace(aligner, model=str(tmp_path / "en-vi.model"))),
                pair=("en-vi", "en-ar"),
            )
        )


class SchemeFileSystem(LocalFileSystem):
    """A stand-in for a remote file system: local files under `elsewhere://`."""

    root = Path()

    def __init__(self, pipeline_options=None):
        super().__init__(pipeline_options)
        self._pipeline_options = pipeline_options

    @classmethod
    def scheme(cls):
        return "elsewhere"

    def _local(self, path):
        return str(self.root / path.removeprefix("elsewhere://"))

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        head, _, tail = path.rpartition("/")
        return head, tail

    def match(self, patterns, limits=None):
        results = super().match([self._local(pattern) for pattern in patterns], limits)
        for result, pattern in zip(results, patterns, strict=True):
            result.pattern = pattern
            for file in result.metadata_list:
                file.path = f"elsewhere://{Path(file.path).relative_to(self.root)}"
        return results

    def create(self, path, *args, **kwargs):
        return super().create(self._local(path), *args, **kwargs)

    def open(self, path, *args, **kwargs):
        return super().open(self._local(path), *args, **kwargs)

    def rename(self, sources, destinations):
        return super().rename([*map(self._local, sources)], [*map(self._local, destinations)])

    def exists(self, path):
        return super().exists(self._local(path))

    def delete(self, paths):
        return LocalFileSystem(self._pipeline_options).delete([self._local(path) for path in paths])


def test_a_file_system_that_beam_knows_serves_for_input_and_output(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(SchemeFileSystem, "root", tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sample.tsv").write_bytes(Path(SAMPLE).read_bytes())
    remote = replace(
        config(tmp_path, chunk_pairs=50, rows_per_shard=100),
        bitext=("elsewhere://in/*.tsv",),
        output="elsewhere://out",
    )
    run(remote)
    here, there = digests(dataset), digests(tmp_path / "out")
    assert {name: there[name] for name in there if name.startswith("data/")} == {
        name: here[name] for name in here if name.startswith("data/")
    }


def test_a_dataset_on_another_file_system_is_replaced_when_the_new_one_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(SchemeFileSystem, "root", tmp_path)
    remote = replace(config(tmp_path), output="elsewhere://out")
    run(remote)
    before = digests(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"config\.seed: 0 before, 1 now"):
        run(replace(remote, seed=1))
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.runtime.dataset_sink.write_manifest", killed)
        with pytest.raises(RuntimeError):
            run(replace(remote, seed=1, overwrite=True))
    assert digests(tmp_path / "out") == before
    with monkeypatch.context() as patch:  # killed when all but the manifest had been moved
        rename = SchemeFileSystem.rename

        def rename_all_but_the_manifest(system, sources, destinations):
            if sources == ["elsewhere://.out.new/manifest.json"]:
                raise RuntimeError("killed")
            return rename(system, sources, destinations)

        patch.setattr(SchemeFileSystem, "rename", rename_all_but_the_manifest)
        with pytest.raises(RuntimeError):
            run(replace(remote, seed=1, overwrite=True))
    assert not (tmp_path / "out" / "manifest.json").exists()
    run(replace(remote, seed=1, overwrite=True))
    assert manifests.load(tmp_path / "out").config["seed"] == 1 and list(find_problems(tmp_path / "out")) == []
    assert not any((tmp_path / ".out.new").rglob("*.*"))


def test_files_of_others_on_another_file_system_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(SchemeFileSystem, "root", tmp_path)
    (tmp_path / "out" / "data").mkdir(parents=True)
    (tmp_path / "out" / "data" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"did not write, such as data/mine\.txt"):
        run(replace(config(tmp_path), output="elsewhere://out", overwrite=True))
    assert (tmp_path / "out" / "data" / "mine.txt").read_text() == "mine"


# --- stops ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_signal_ends_a_job_with_one_line_and_no_process_left(tmp_path, number, code, workers):
    output = tmp_path / "out"
    command = [sys.executable, "-m", "pipelines", "clism", "--bitext", SAMPLE, "--pair", "en-vi", "--chunk-pairs", "1"]
    command += ["--output", str(output), "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        deadline = time.monotonic() + 60
        while not list(output.glob("work/*/tokenized/*.json")):
            assert job.poll() is None and time.monotonic() < deadline, "the job ended before it could be stopped"
            time.sleep(0.01)
        started = descendants(job.pid)
        os.kill(job.pid, number)
        _, said = job.communicate(timeout=20)
    assert job.returncode == code and "Traceback" not in said
    assert said.splitlines()[-1] == "polyspan-data: Stopped. Repeat the command to go on from what is finished."
    assert len(started) >= (workers if workers > 1 else 0)
    deadline = time.monotonic() + 10
    while any(map(command_of, started)):  # killed, but not yet gone
        assert time.monotonic() < deadline
    assert not (output / ".polyspan-lock").exists()


def test_a_worker_that_dies_ends_the_job_in_one_sentence(tmp_path):
    output = tmp_path / "out"
    command = [sys.executable, "-m", "pipelines", "clism", "--bitext", SAMPLE, "--pair", "en-vi", "--chunk-pairs", "1"]
    command += ["--output", str(output), "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        deadline = time.monotonic() + 60
        while not list(output.glob("work/*/tokenized/*.json")):
            assert job.poll() is None and time.monotonic() < deadline, "the job ended before its worker could be killed"
            time.sleep(0.01)
        os.kill(descendants(job.pid)[-1], signal.SIGKILL)
        _, said = job.communicate(timeout=60)
    print(said)
    assert job.returncode == 1 and "Traceback" not in said
    assert "A worker process died" in said.splitlines()[-1]


def command_of(pid: int) -> str:
    """Empty for a process that has ended, or that nobody has waited for yet."""
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_text() if path.exists() else ""


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for each in map(int, child.read_text().split()):
            found += [each, *descendants(each)]
    return found


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6])
def test_ctrl_c_while_a_command_starts_gives_no_traceback(tmp_path, seconds):
    command = [sys.executable, "-m", "pipelines", "clism", "--bitext", SAMPLE, "--pair", "en-vi", "--output", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as job:
        time.sleep(seconds)
        os.kill(job.pid, signal.SIGINT)
        _, said = job.communicate(timeout=20)
    if "site" not in said:  # Python itself had not started yet
        assert job.returncode == 130 and "Traceback" not in said
        assert "Stopped" in said


@pytest.mark.parametrize(
    "runner, expected",
    [
        (["--runner=FlinkRuner"], "Did you mean FlinkRunner?"),
        (["--runner=DataflowRunner"], "DataflowRunner cannot run the job: "),
        (
            ["--runner=PortableRunner", "--job_endpoint=localhost:1"],
            "--job_endpoint=localhost:1: nothing answers there",
        ),
        (["--runner=FlinkRunner", "--flink_master=localhost:1"], "--flink_master=localhost:1: nothing answers there"),
        (["--direct_running_mode=multi_threading"], "loses records"),
    ],
)
def test_what_a_runner_cannot_do_is_told_in_words_and_leaves_no_folder(tmp_path, runner, expected, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["clism", "--bitext", SAMPLE, "--pair", "en-vi", "--output", str(tmp_path / "out"), "--", *runner])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and expected in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--output", "gs://bucket/out"], "pip install 'apache-beam[gcp]'"),
        (["--output", "out", "--workers", "-3"], "--workers -3: expected 1 or more"),
    ],
)
def test_what_this_machine_cannot_do_is_told_in_words(tmp_path, arguments, expected, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["clism", "--bitext", SAMPLE, "--pair", "en-vi", *arguments])
    assert stopped.value.code == 2 and expected in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_disk_ends_a_job_in_one_sentence_and_it_goes_on_later(dataset, tmp_path, workers):
    command = [sys.executable, "-m", "pipelines", "clism", "--bitext", SAMPLE, "--pair", "en-vi", "--workers", workers]
    command += ["--chunk-pairs", "50", "--rows-per-shard", "100", "--output", str(tmp_path / "out")]
    limited = ["bash", "-c", 'ulimit -f 24; exec "$@"', "-", *command]  # no file over 24 KiB: what a full disk is like
    failed = subprocess.run(limited, capture_output=True, text=True)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr
    assert re.search(r"^polyspan-data: .*File too large\. ", failed.stderr.splitlines()[-1]), failed.stderr
    assert len(failed.stderr.splitlines()) < 20
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert digests(tmp_path / "out") == digests(dataset)


def test_the_demo_shows_examples_and_where_the_shards_lie(tmp_path, capsys):
    cli.main(["demo", "--output", str(tmp_path / "demo")])
    said = capsys.readouterr().out
    assert "[QUE 1]" in said and "en-hi" in said and str(tmp_path / "demo" / "clism") in said
    assert "unanswerable" in said and str(tmp_path / "demo" / "anchor-mrc") in said


def test_help_lists_the_arguments(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["clism", "--help"])
    assert stopped.value.code == 0 and "--aligner.training-pairs" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    assert stopped.value.code == 0


def test_manifest_is_plain_json(dataset):
    assert json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))["schema"] == "clism/1"


def test_input_error_from_a_worker_keeps_its_words(tmp_path):
    (tmp_path / "a.tmx").write_text("<tmx><body><tu></tu>")
    with pytest.raises(InputError, match=r"a\.tmx"):
        run(replace(config(tmp_path / "out"), bitext=(f"{tmp_path}/a.tmx",)))
