"""What is written of a path: enough to know the file, nothing of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.runtime.shown_paths import shown_path, shown_paths, shown_text


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder `home/anna/work`."""
    home = tmp_path / "home" / "anna"
    (home / "work" / "data").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    return home


@pytest.mark.parametrize(
    "path, shown",
    [
        ("data/news.en", "data/news.en"),
        ("./data/../data/news.en", "data/news.en"),
        ("HOME/work/data/news.en", "data/news.en"),
        ("HOME/work/data/news-*.en", "data/news-*.en"),
        ("~/work/data/news.en", "data/news.en"),
        ("HOME/work", "."),
        ("HOME/work/", "."),
        ("HOME/workshop/news.en", "workshop/news.en"),
        ("HOME/news.en", "news.en"),
        ("~/news.en", "news.en"),
        ("../news.en", "news.en"),
        ("HOME/models/old/clism/model", "clism/model"),
        ("/home/bert/news.en", "news.en"),
        ("/Users/bert/a/news.en", "a/news.en"),
        ("/home/bert", "."),
        ("/srv/corpora/opus/news.en", "opus/news.en"),
        ("/news.en", "news.en"),
        ("/", "."),
        ("", ""),
        ("xlm-roberta-base", "xlm-roberta-base"),
        ("FacebookAI/xlm-roberta-base", "FacebookAI/xlm-roberta-base"),
        ("gs://bucket/opus/news-?.en", "gs://bucket/opus/news-?.en"),
        ("gs://bucket/corpus.tsv@1", "gs://bucket/corpus.tsv@1"),
        ("hdfs://anna@node:8020/news.en", "hdfs://node:8020/news.en"),
        ("https://anna:secret@example.org/news.en?token=1&b=/x", "https://example.org/news.en"),
        ("https://example.org/news.en#token=1", "https://example.org/news.en"),
    ],
)
def test_a_path_is_written_without_its_machine(path: str, shown: str, at_home: Path) -> None:
    assert shown_path(path.replace("HOME", str(at_home))) == shown
    assert shown_path(shown) == shown


def test_a_link_into_the_working_folder_is_inside_it(at_home: Path) -> None:
    os.symlink(at_home / "work", at_home / "link")
    assert shown_path(at_home / "link" / "data" / "news.en") == "data/news.en"
    os.symlink("/srv/news.en", "data/news.en")
    assert shown_path("data/news.en") == "data/news.en"


def test_in_the_root_a_path_does_not_name_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert shown_path("home/bert/news.en") == shown_path("/home/bert/news.en") == "news.en"
    assert shown_path("data/news.en") == "data/news.en"


def test_files_of_one_name_are_told_apart(at_home: Path) -> None:
    paths = ["/a/x/opus/news.en", "/a/y/opus/news.en", "/a/y/web/news.en", "/home/bert/n.en", "/home/carl/n.en"]
    assert list(shown_paths([*paths, paths[0]]).values()) == [
        "x/opus/news.en",
        "y/opus/news.en",
        "web/news.en",
        "n.en",
        "n.en",
    ]
    one_file_twice = [f"{at_home}/work/a.en", "a.en", Path("a.en")]
    assert shown_paths(one_file_twice) == {f"{at_home}/work/a.en": "a.en", "a.en": "a.en"}


def test_a_message_is_written_without_its_machine(at_home: Path) -> None:
    text = f"{at_home}/work/data/a.json:3: not read; see '{at_home}/runs/a/model', https://example.org/a and a/b, ~/c"
    assert shown_text(text) == "data/a.json:3: not read; see 'a/model', https://example.org/a and a/b, c"
