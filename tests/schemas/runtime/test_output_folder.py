"""Output folders: what is ours, one writer, and a new output in the place of an old one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.runtime import output_folder
from schemas.runtime.output_folder import LOCK, NEW, begin_replacement, check_output, locked, replacement, staging


def files_of(folder: Path) -> set[str] | None:
    """A kind of output: `mark` lists its files, a line each."""
    mark = folder / "mark"
    return {"mark", *mark.read_text().split()} if mark.is_file() else None


def output(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "mark").write_text("\n".join(files))
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in output_folder.files_in(folder)}


# --- what is ours -----------------------------------------------------------------------------------------------------


def test_a_new_or_empty_folder_may_be_written_to(tmp_path):
    assert not check_output(tmp_path / "new", files_of)
    assert not check_output(tmp_path, files_of)


@pytest.mark.parametrize("name", ["notes.txt", "data/a.txt", ".hidden", LOCK, NEW])
def test_a_folder_with_foreign_files_is_refused_by_name_and_left_alone(tmp_path, name):
    foreign = tmp_path / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    with pytest.raises(ConfigError, match=name):
        check_output(tmp_path, files_of)
    assert contents(tmp_path) == {name: "mine"}


def test_foreign_files_beside_an_output_of_ours_are_refused_by_name(tmp_path):
    output(tmp_path, a="1")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"but also other files: notes\.txt"):
        check_output(tmp_path, files_of)


def test_a_link_is_foreign_whatever_it_leads_to(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("mine")
    out = output(tmp_path / "out")
    (out / "mark").write_text("data/a")
    (out / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="data"):
        check_output(out, files_of)
    output_folder.delete_output(out, files_of)
    assert (tmp_path / "elsewhere" / "a").read_text() == "mine"


def test_an_input_inside_the_output_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "news.en").write_text("")
    with pytest.raises(ConfigError, match=r"--bitext .*news\.en is inside the output folder"):
        check_output(tmp_path / "out", files_of, {"--bitext": [tmp_path / "out" / "news.en"]})
    with pytest.raises(ConfigError, match="--data"):
        check_output(tmp_path / "out", files_of, {"--data": [tmp_path / "out"]})


def test_only_listed_and_temporary_files_are_deleted(tmp_path, caplog):
    output(tmp_path, a="1", b="2")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / f".a.{'0' * 32}.partial").write_text("half")
    output_folder.delete_output(tmp_path, files_of)
    assert contents(tmp_path) == {"notes.txt": "mine"}
    assert "notes.txt" in caplog.text


def test_a_folder_without_a_mark_is_not_deleted(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        output_folder.delete_output(tmp_path, files_of)
    assert contents(tmp_path) == {"notes.txt": "mine"}


# --- one writer -------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from schemas.runtime.output_folder import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock on tmp_path/out."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_with_host_process_and_time_of_the_first(tmp_path, holder):
    said = json.loads((tmp_path / "out" / LOCK).read_text())
    expected = re.escape(f"process {holder.pid} on {said['host']}, since {said['started']}")
    with pytest.raises(ConfigError, match=expected), locked(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / LOCK).exists()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder):
    holder.kill()
    holder.wait()
    with locked(tmp_path / "out"):
        assert json.loads((tmp_path / "out" / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / "out" / LOCK).exists()


def test_a_folder_that_the_lock_created_and_nobody_filled_is_gone(tmp_path):
    with locked(tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    with locked(tmp_path):
        child = os.fork()
        if not child:
            os._exit(0 if not output_folder._held else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_same_process_cannot_write_twice_at_once(tmp_path):
    with locked(tmp_path), pytest.raises(ConfigError, match=f"process {os.getpid()}"), locked(tmp_path):
        pass


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(*_):
        raise OSError(output_folder.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(output_folder.fcntl, "flock", refuse)


def test_without_locks_a_live_process_of_this_host_is_recognised_and_a_dead_one_taken_over(tmp_path, no_locks):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (tmp_path / LOCK).write_text(json.dumps({**output_folder._this_process(), "pid": sleeper.pid}))
    with pytest.raises(ConfigError, match=f"process {sleeper.pid}"), locked(tmp_path):
        pass
    sleeper.kill()
    sleeper.wait()
    with locked(tmp_path):
        pass


def test_without_locks_a_process_of_another_host_is_refused_with_what_to_delete(tmp_path, no_locks):
    (tmp_path / LOCK).write_text(json.dumps({**output_folder._this_process(), "host": "elsewhere"}))
    with pytest.raises(ConfigError, match=r"on elsewhere .*: rm .*polyspan-lock"), locked(tmp_path):
        pass


# --- a new output in the place of an old one --------------------------------------------------------------------------


def test_the_old_output_stays_until_the_new_one_is_complete_and_then_goes(tmp_path):
    old = output(tmp_path / "out", a="old")
    with replacement(old, files_of) as new:
        output(new, b="new")
        assert contents(old) == {"a": "old", "mark": "a"}
    assert contents(old) == {"b": "new", "mark": "b"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_replacement_that_fails_leaves_the_old_output_and_goes_on_later(tmp_path):
    old = output(tmp_path / "out", a="old")
    with pytest.raises(ZeroDivisionError), replacement(old, files_of) as new:
        output(new, b="half")
        raise ZeroDivisionError
    assert contents(old) == {"a": "old", "mark": "a"}
    with replacement(old, files_of) as new:
        assert contents(new)["b"] == "half"


def test_a_replacement_that_fails_before_it_writes_leaves_nothing(tmp_path):
    old = output(tmp_path / "out", a="old")
    with pytest.raises(ZeroDivisionError), replacement(old, files_of):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_foreign_files_under_the_name_of_the_new_output_are_left_alone(tmp_path):
    old = output(tmp_path / "out", a="old")
    staging(old).mkdir()
    (staging(old) / "mine").write_text("mine")
    with pytest.raises(ConfigError, match="mine"):
        begin_replacement(old, files_of)
    assert contents(staging(old)) == {"mine": "mine"}


def test_foreign_files_that_came_during_the_replacement_are_kept(tmp_path):
    old = output(tmp_path / "out", a="old")
    with replacement(old, files_of) as new:
        output(new, b="new")
        (old / "notes.txt").write_text("mine")
    assert contents(old) == {"b": "new", "mark": "b"}
    assert contents(staging(old)) == {"notes.txt": "mine"}


def test_the_working_folder_and_what_holds_it_are_not_replaced(tmp_path, monkeypatch):
    old = output(tmp_path / "out", a="old")
    monkeypatch.chdir(old)
    with pytest.raises(ConfigError, match="working folder"):
        begin_replacement(Path("."), files_of)


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_without_exchanges_a_kill_between_two_renames_is_recovered_from(tmp_path, monkeypatch, renames):
    old, done = output(tmp_path / "out", a="old"), 0
    rename = Path.rename

    def some(path, target):
        nonlocal done
        if done == renames:
            raise ZeroDivisionError
        done += 1
        return rename(path, target)

    monkeypatch.setattr(output_folder, "_exchange_at_once", lambda one, other: False)
    new = begin_replacement(old, files_of)
    output(new, b="new")
    monkeypatch.setattr(Path, "rename", some)
    if renames < 3:
        with pytest.raises(ZeroDivisionError):
            output_folder.finish_replacement(old, files_of)
    else:
        output_folder.finish_replacement(old, files_of)
    monkeypatch.setattr(Path, "rename", rename)
    output_folder.recover(old, files_of)
    output_folder.tidy(old, files_of)
    assert contents(old).get("a", contents(old).get("b")) == ("old" if renames < 2 else "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ([".out.new", "out"] if renames < 2 else ["out"])


def test_a_folder_of_somebody_else_under_the_third_name_stays_where_it_is(tmp_path):
    mine = tmp_path / ".out.old"
    mine.mkdir()
    (mine / "mine").write_text("mine")
    output_folder.recover(tmp_path / "out", files_of)
    assert contents(mine) == {"mine": "mine"} and not (tmp_path / "out").exists()


def test_a_process_that_died_after_the_exchange_leaves_something_to_tidy(tmp_path):
    old = output(tmp_path / "out", a="old")
    assert not output_folder.needs_tidying(old)
    staging(old).mkdir()
    (staging(old) / LOCK).write_text("")  # all that is left of the old output: its lock
    assert output_folder.needs_tidying(old)
    with locked(old):
        output_folder.tidy(old, files_of)
    assert not output_folder.needs_tidying(old) and not staging(old).exists()
