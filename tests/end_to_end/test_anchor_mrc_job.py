"""The whole anchor-MRC job, as a user starts it: links, sampling, bytes, stops, damage, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines import anchor_mrc_transforms, cli
from pipelines.anchor_mrc import run
from pipelines.recipes import ANCHOR_MRC, AnchorMrcConfig
from pipelines.steps.anchor_mrc.triplets import TripletConfig
from pipelines.steps.anchor_mrc.whole_words import Searchable
from schemas import manifest as manifests
from schemas.anchor_mrc import AnchorCounts, AnchorMrcExample
from schemas.errors import DatasetError
from schemas.shards import read_examples
from schemas.verification import find_problems
from tests.end_to_end.dumps import WikiPage, write_dump
from tests.end_to_end.test_clism_job import digests

TOWNS = [f"Town{number}" for number in range(1, 31)]


def town_pages() -> list[WikiPage]:
    """Thirty towns, each mentioned by twelve others in the middle of many words, and pages of all other kinds."""
    pages = [
        WikiPage("Talk:Town1", "A talk about [[Town1]].", namespace=1),
        WikiPage("The town", "", redirect="Town1"),
        WikiPage("Town", "'''Town''' may be: [[Town1]] {{disambiguation}}"),
        WikiPage("Round", "", redirect="About"),
        WikiPage("About", "", redirect="Round"),
    ]
    for number, town in enumerate(TOWNS):
        sentences = [f"'''{town}''' is a town of the plain."]
        for step in range(1, 13):
            other = TOWNS[(number + step) % len(TOWNS)]
            sentences.append(f"{'Some words stand here. ' * step}The road from [[{other}]] ends {number} miles away.")
        pages.append(WikiPage(town, "\n\n".join(sentences)))
    pages[5] = pages[5]._replace(
        text=pages[5].text
        + " [[the town]] [[Town1]] [[nowhere]] [[town]] [[round]] [[File:X.png|[[Town2]]]] [[#Here|a]]"
    )
    return pages


def config(dump: Path, output: Path, **changes) -> AnchorMrcConfig:
    return replace(ANCHOR_MRC, dump=(str(dump),), lang=("en",), output=str(output), **changes)


def examples_of(folder: Path) -> list[AnchorMrcExample]:
    return list(read_examples(folder))


def counts_of(folder: Path, lang: str = "en") -> AnchorCounts:
    counts = manifests.load(folder).counts[lang]
    assert isinstance(counts, AnchorCounts)
    return counts


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    return write_dump(tmp_path_factory.mktemp("dump") / "enwiki.xml", town_pages())


@pytest.fixture(scope="module")
def dataset(dump, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("anchor") / "en"
    run(config(dump, folder))
    return folder


def test_every_page_and_every_link_is_accounted_for(dataset):
    assert list(find_problems(dataset)) == []
    counts = counts_of(dataset)
    assert (counts.pages_read, counts.articles) == (35, 31)
    assert counts.page_rejects == {"other_namespace": 1, "redirect": 3}
    assert counts.link_rejects == {
        "red_link": 1,
        "self_link": 3,
        "disambiguation": 1,
        "redirect_loop": 1,
        "on_disambiguation_page": 1,
    }
    assert counts.links_found == counts.mentions + 7 == 30 * 12 + 7  # the caption's link is none
    assert counts.links_saved_by == {}


def test_an_entity_has_ten_examples_of_each_kind(dataset):
    by_entity = defaultdict(Counter)
    for example in examples_of(dataset):
        by_entity[example.entity][example.answerable] += 1
    assert set(by_entity) == set(TOWNS)
    assert {kinds[True] for kinds in by_entity.values()} == {10}
    counts = counts_of(dataset)
    assert counts.entities == 30 and counts.answerable == 300
    assert counts.unanswerable == sum(kinds[False] for kinds in by_entity.values()) > 200
    assert counts.mention_rejects == {"not_sampled": counts.mentions - 300}


def test_queries_are_anonymous_and_contexts_hold_their_anchor(dataset):
    for example in examples_of(dataset):
        assert example.query_text.startswith("[MASK] is a town of the plain.")
        assert not Searchable(example.query_text, spaced=True).mentions_any([example.entity])
        for span in example.answers:
            assert span.of(example.context_text) == example.anchor_text == example.entity


def test_an_unanswerable_context_is_of_an_article_that_knows_nothing_of_the_entity(dataset):
    texts = {page.title: page.text for page in town_pages()}
    for example in examples_of(dataset):
        if not example.answerable:
            assert not Searchable(texts[example.mention_article.title], spaced=True).mentions_any([example.entity])


def test_answers_are_at_any_position_of_their_context(dataset):
    drawn = [example.words_before_drawn for example in examples_of(dataset)]
    assert min(drawn) < 15 and max(drawn) > 185
    assert 85 < sum(drawn) / len(drawn) < 115  # of 0 to 200


def test_rare_entities_are_left_out(dump, tmp_path):
    run(config(dump, tmp_path / "out", triplets=TripletConfig(min_mentions=13)))
    counts = counts_of(tmp_path / "out")
    assert counts.entities == 0 and counts.examples == 0
    assert counts.mention_rejects == {"rare_entity": counts.mentions}
    assert list(find_problems(tmp_path / "out")) == []


def test_links_that_only_a_rule_saves_are_counted_under_it(tmp_path):
    pages = [WikiPage("Dog", "A dog barks."), WikiPage("Hound", "", redirect="Dog#Kinds")]
    pages += [
        WikiPage(f"Page {number}", f"See [[{link}]].") for number, link in enumerate(["dog", "Dog#Food", "hound"])
    ]
    dump = write_dump(tmp_path / "enwiki.xml", pages)
    run(config(dump, tmp_path / "out", triplets=TripletConfig(min_mentions=1)))
    counts = counts_of(tmp_path / "out")
    assert counts.links_saved_by == {"first_letter": 2, "fragment": 1, "redirect": 1}
    assert {example.anchor_text for example in examples_of(tmp_path / "out") if example.answerable} == {
        "dog",
        "Dog#Food",
        "hound",
    }


# --- the same bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, pages_per_stream, changes",
    [
        ("enwiki.xml", 0, {"range_bytes": 3000}),
        ("enwiki.xml.bz2", 0, {}),
        ("enwiki-multistream.xml.bz2", 4, {"range_bytes": 500}),
    ],
)
def test_how_a_dump_is_stored_and_cut_decides_no_byte(dataset, tmp_path, name, pages_per_stream, changes):
    stored = write_dump(tmp_path / name, town_pages(), pages_per_stream=pages_per_stream)
    run(config(stored, tmp_path / "out", **changes))
    data = {name: digest for name, digest in digests(dataset).items() if name.startswith("data/")}
    assert {name: digest for name, digest in digests(tmp_path / "out").items() if name.startswith("data/")} == data
    assert counts_of(tmp_path / "out") == counts_of(dataset)


def test_worker_processes_and_many_parts_write_the_same_bytes(dataset, dump, tmp_path, monkeypatch):
    run(config(dump, tmp_path / "workers", workers=3, range_bytes=3000))
    assert digests(tmp_path / "workers") == digests(dataset)
    monkeypatch.setattr(anchor_mrc_transforms, "ARTICLES_PER_PART", 3)
    run(config(dump, tmp_path / "parts", range_bytes=3000))
    assert digests(tmp_path / "parts") == digests(dataset)


def test_the_order_of_pages_decides_no_example(dataset, tmp_path):
    pages = town_pages()
    numbers = {page.title: number for number, page in enumerate(pages, 1)}
    stored = write_dump(tmp_path / "enwiki.xml", pages)
    head, *blocks = stored.read_text(encoding="utf-8").split("  <page>\n")
    blocks[-1], end = blocks[-1].split("</mediawiki>")
    assert len(numbers) == len(blocks)
    turned = "".join("  <page>\n" + block for block in reversed(blocks))
    stored.write_text(f"{head}{turned}</mediawiki>{end}", encoding="utf-8")
    run(config(stored, tmp_path / "out"))
    assert examples_of(tmp_path / "out") == examples_of(dataset)


def test_another_seed_draws_others(dataset, dump, tmp_path):
    run(config(dump, tmp_path / "out", seed=1))
    assert {example.id for example in examples_of(tmp_path / "out")} != {example.id for example in examples_of(dataset)}


def test_a_killed_job_leaves_no_dataset_and_goes_on_to_the_same_bytes(dataset, dump, tmp_path):
    output = tmp_path / "out"
    command = [sys.executable, "-m", "pipelines.cli", "anchor-mrc", "--dump", str(dump), "--lang", "en"]
    command += ["--range-bytes", "1500", "--output", str(output)]
    job = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(output.glob("work/*/linked/*.json")) and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.01)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    with pytest.raises(DatasetError, match="stopped or is still running"):
        manifests.load(output)
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "Going on with a job that was stopped" in again.stderr
    assert digests(output) == digests(dataset)


# --- languages ------------------------------------------------------------------------------------


def test_several_languages_become_one_dataset_or_one_each(tmp_path):
    for lang in ("en", "vi"):
        write_dump(tmp_path / f"{lang}wiki.xml", town_pages(), lang)
    both = replace(ANCHOR_MRC, dump=(f"{tmp_path}/{{lang}}wiki.xml",), lang=("en", "vi"))
    run(replace(both, output=str(tmp_path / "mixed")))
    manifests_ = run(replace(both, output=f"{tmp_path}/{{lang}}"))
    assert set(manifests_) == {f"{tmp_path}/en", f"{tmp_path}/vi"}
    each = [example for lang in ("en", "vi") for example in examples_of(tmp_path / lang)]
    assert {example.lang for example in each} == {"en", "vi"}
    assert examples_of(tmp_path / "mixed") == each
    assert set(manifests.load(tmp_path / "mixed").counts) == {"en", "vi"}


# --- what cannot work -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--dump", "X"], "No language. Name that of the dump, for instance: --lang sw"),
        (["--lang", "en"], "No dump. Name one or more"),
        (["--lang", "english", "--dump", "X"], "Did you mean 'en' (English)?"),
        (["--lang", "en", "--dump", "enwiki.xm"], "no such file. Did you mean enwiki.xml?"),
        (["--lang", "en", "--dump", "enwiki.xml", "enwiki.xml"], "is given twice"),
        (["--lang", "en", "vi", "--dump", "enwiki.xml"], "in which language?"),
        (["--lang", "en", "vi", "--dump", "en=enwiki.xml"], "vi: no --dump is read for this language"),
        (["--lang", "vi", "--dump", "enwiki.xml"], 'the Wikipedia of "en" and not of "vi"'),
        (["--lang", "en", "--dump", "enwiki.xml", "--triplets.context-words", "0"], "expected at least 1"),
        (["--lang", "en", "--dump", "enwiki.xml", "--range-bytes", "0"], "must be at least 1"),
    ],
)
def test_arguments_that_cannot_work_end_with_code_2(dump, arguments, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(dump.parent)
    with pytest.raises(SystemExit) as exit_:
        cli.main(["anchor-mrc", *arguments, "--output", str(tmp_path / "out")])
    assert exit_.value.code == 2 and expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_written_says_nothing_of_the_machine(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for lang in ("en", "sw"):
        write_dump(tmp_path / "work" / f"{lang}wiki.xml", town_pages()[:12])
    write_dump(tmp_path / "far.xml", town_pages()[12:])
    specs = (f"en={tmp_path}/work/enwiki.xml", "sw=swwiki.xml", f"sw={tmp_path}/far.xml")
    asked = replace(ANCHOR_MRC, dump=specs, lang=("en", "sw"), output="{lang}", any_siteinfo=True)
    manifest = run(asked)["sw"]
    assert manifest.config["dump"][:2] == ["en=enwiki.xml", "sw=swwiki.xml"]
    assert [file.path for file in manifest.inputs] == ["swwiki.xml", f"{tmp_path.name}/far.xml"]
    for lang in ("en", "sw"):
        for path in Path(lang).rglob("*"):
            assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()


def test_a_dump_of_another_wiki_is_read_if_asked(dump, tmp_path):
    run(replace(config(dump, tmp_path / "out", any_siteinfo=True), lang=("vi",)))
    assert {example.lang for example in examples_of(tmp_path / "out")} == {"vi"}


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"<html>not found</html>", "expected"),
        (b"", "the file is empty"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><mediawiki><page></page></mediawiki>', "DTD"),
    ],
)
def test_a_file_that_is_no_dump_ends_with_code_1(content, expected, capsys, tmp_path):
    (tmp_path / "dump.xml").write_bytes(content)
    arguments = ["--dump", f"{tmp_path}/dump.xml", "--lang", "en", "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as exit_:
        cli.main(["anchor-mrc", *arguments])
    assert exit_.value.code == 1 and expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def truncated(dump: Path, tmp_path: Path) -> Sequence[str]:
    whole = dump.read_bytes()
    (tmp_path / "enwiki.xml").write_bytes(whole[: len(whole) // 2])
    arguments = ["--dump", f"{tmp_path}/enwiki.xml", "--lang", "en", "--triplets.min-mentions", "1"]
    return ["anchor-mrc", *arguments, "--output", str(tmp_path / "out")]


def test_a_damaged_dump_gives_what_can_be_read_and_a_failure(dump, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(truncated(dump, tmp_path))
    told = capsys.readouterr().err
    assert exit_.value.code == 1 and "truncated 1" in told and "--tolerate-damage" in told
    counts = counts_of(tmp_path / "out")
    assert counts.page_rejects["truncated"] == counts.page_rejects["cut_page"] == 1
    assert counts.examples > 50 and list(find_problems(tmp_path / "out")) == []


def test_damage_can_be_tolerated(dump, tmp_path, capsys):
    cli.main([*truncated(dump, tmp_path), "--tolerate-damage"])
    assert "truncated 1" in capsys.readouterr().err


def test_files_of_wikiextractor_are_read_too(tmp_path):
    pages = [{"id": "1", "revid": "11", "title": "Dog", "text": "A dog is an animal that barks."}]
    for number in range(2, 7):
        text = f'Sentence {number} tells of the &lt;a href="dog"&gt;dog&lt;/a&gt; at length.'
        pages.append({"id": str(number), "revid": "1", "title": f"Page {number}", "text": text})
    (tmp_path / "wiki_00").write_text("\n".join([*map(json.dumps, pages), "{broken"]), encoding="utf-8")
    run(replace(ANCHOR_MRC, extracted=(f"{tmp_path}/wiki_*",), lang=("sw",), output=str(tmp_path / "out")))
    counts = counts_of(tmp_path / "out", "sw")
    assert counts.page_rejects == {"not_json": 1} and counts.answerable == 5
    example = examples_of(tmp_path / "out")[0]
    assert (example.query_text, example.anchor_text) == ("A [MASK] is an animal that barks.", "dog")
    assert list(find_problems(tmp_path / "out")) == []
