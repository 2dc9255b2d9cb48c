"""`polyspan-data fetch wikipedia` against a mirror on this machine that misbehaves on demand."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from urllib.error import URLError

import pytest

from pipelines import cli
from pipelines.fetch import download
from pipelines.fetch.download import Meter
from pipelines.fetch.wikipedia import FetchConfig, fetch_wikipedia, open_mirror
from pipelines.inputs import expand_specs
from schemas.errors import ConfigError, InputError

CONTENT = bytes(range(256)) * 400
NAME = "swwiki-20261101-pages-articles-multistream.xml.bz2"
FILE = f"/swwiki/20261101/{NAME}"
STATUS = "/swwiki/20261101/dumpstatus.json"


class Seen(NamedTuple):
    method: str
    path: str
    range: str | None
    user_agent: str | None


class Handler(BaseHTTPRequestHandler):
    """Serves `server.files`, with ranges; before that, whatever `server.faults` holds for the path, one a request."""

    server: FakeMirror

    def do_GET(self) -> None:
        headers = self.headers
        self.server.seen.append(Seen(self.command, self.path, headers.get("Range"), headers.get("User-Agent")))
        body = self.server.files.get(self.path)
        faults = self.server.faults[self.path]
        with suppress(ConnectionError):
            if faults:
                faults.pop(0)(self, body or b"")
            elif body is None:
                self.reply(404)
            else:
                self.send_file(body)

    do_HEAD = do_GET

    def send_file(self, body: bytes, stop: int | None = None) -> None:
        """The file from the byte that is asked for, cut after `stop` bytes."""
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if start >= len(body) > 0:
            return self.reply(416, {"Content-Range": f"bytes */{len(body)}"})
        ranges = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"} if start else {}
        self.reply(206 if start else 200, {"Content-Length": str(len(body) - start)} | ranges, body[start:][:stop])

    def reply(self, code: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


Fault = Callable[[Handler, bytes], None]


def drop_after(count: int) -> Fault:
    return lambda handler, body: handler.send_file(body, stop=count)


def answer(code: int, **headers: str) -> Fault:
    return lambda handler, body: handler.reply(code, {name.replace("_", "-"): text for name, text in headers.items()})


def another_range(handler: Handler, body: bytes) -> None:
    handler.reply(206, {"Content-Range": f"bytes 7-{len(body) - 1}/{len(body)}"}, body[7:])


def whole_file(handler: Handler, body: bytes) -> None:
    """A server that knows no ranges."""
    handler.reply(200, {"Content-Length": str(len(body))}, body)


class FakeMirror(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: defaultdict[str, list[Fault]] = defaultdict(list)
        self.seen: list[Seen] = []
        self.waits: list[float] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def publish(
        self, date: str = "20261101", wiki: str = "swwiki", status: str = "done", **jobs: dict[str, bytes]
    ) -> None:
        """One dump: the files of each job, those of `articlesmultistreamdump` by default."""
        if not jobs:
            jobs = {"articlesmultistreamdump": {f"{wiki}-{date}-pages-articles-multistream.xml.bz2": CONTENT}}
        listed = {}
        for job, files in jobs.items():
            listed[job] = {"status": status, "files": {name: published(content) for name, content in files.items()}}
            self.files |= {f"/{wiki}/{date}/{name}": content for name, content in files.items()}
        self.files[f"/{wiki}/{date}/dumpstatus.json"] = json.dumps({"version": "0.8", "jobs": listed}).encode()
        page = self.files.get(f"/{wiki}/", b'<a href="../">../</a> <a href="latest/">latest</a>')
        self.files[f"/{wiki}/"] = page + f'\n<a href="{date}/">{date}/</a>'.encode()

    def fetch(self, folder: Path, **options: object) -> str:
        config = replace(FetchConfig(lang=("sw",), mirror=self.url, output=str(folder)), **options)
        return fetch_wikipedia(config, self.waits.append)

    def ranges(self, path: str = FILE) -> list[str | None]:
        """The Range of every request for the file."""
        return [request.range for request in self.seen if request.path == path]


def published(content: bytes) -> dict[str, object]:
    return {"size": len(content), "url": "/elsewhere", "sha1": sha1(content), "md5": hashlib.md5(content).hexdigest()}


def sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMirror]:
    monkeypatch.setenv("no_proxy", "*")
    for name in ("POLYSPAN_WIKIPEDIA_MIRROR", "POLYSPAN_CONTACT"):
        monkeypatch.delenv(name, raising=False)
    server = FakeMirror()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def left_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


# --- what is fetched ------------------------------------------------------------------------------


def test_the_newest_finished_dump_is_fetched(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish("20261001")
    mirror.publish("20261101")
    mirror.publish("20261120", status="in-progress")
    mirror.publish("20261121")
    mirror.files["/swwiki/20261121/dumpstatus.json"] = b"\xff<html>"
    mirror.publish("20261122")
    del mirror.files["/swwiki/20261122/dumpstatus.json"]
    told = mirror.fetch(tmp_path / "dumps")
    assert left_in(tmp_path / "dumps") == {NAME: CONTENT}
    assert f"Verified: {tmp_path}/dumps/{NAME}" in told
    assert not mirror.waits


def test_a_date_is_fetched_without_looking_at_others(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish("20261001")
    mirror.publish("20261101")
    mirror.fetch(tmp_path, date="20261001")
    assert left_in(tmp_path) == {"swwiki-20261001-pages-articles-multistream.xml.bz2": CONTENT}
    assert all("20261101" not in request.path and request.path != "/swwiki/" for request in mirror.seen)


def large_wiki(mirror: FakeMirror, recombined: str = "done") -> dict[str, bytes]:
    """As large wikis' dumps are: parts, their indexes, and one file that another job makes of the parts."""
    stem = "enwiki-20261101-pages-articles-multistream"
    parts = {f"{stem}{part}.bz2": part.encode() * 9 for part in ("1.xml-p1p90", "2.xml-p91p200", "10.xml-p201p300")}
    index = {f"{stem}-index1.txt-p1p90.bz2": b"index"}
    one = {f"{stem}.xml.bz2": b"all", f"{stem}-index.txt.bz2": b"index"}
    mirror.publish(
        wiki="enwiki",
        articlesmultistreamdump=dict(reversed(parts.items())) | index,
        articlesmultistreamdumprecombine=one,
        articlesdump={"enwiki-20261101-pages-articles1.xml-p1p90.bz2": b"plain part"},
        articlesdumprecombine={"enwiki-20261101-pages-articles.xml.bz2": b"plain"},
    )
    path = "/enwiki/20261101/dumpstatus.json"
    status = json.loads(mirror.files[path])
    status["jobs"]["articlesmultistreamdumprecombine"]["status"] = recombined
    mirror.files[path] = json.dumps(status).encode()
    return parts


def test_of_a_large_wiki_the_one_file_is_fetched(mirror: FakeMirror, tmp_path: Path) -> None:
    large_wiki(mirror)
    mirror.fetch(tmp_path, lang=("en",))
    assert left_in(tmp_path) == {"enwiki-20261101-pages-articles-multistream.xml.bz2": b"all"}


def test_of_a_large_wiki_the_parts_are_fetched_in_the_order_of_their_pages(mirror: FakeMirror, tmp_path: Path) -> None:
    parts = large_wiki(mirror, recombined="waiting")
    told = mirror.fetch(tmp_path, lang=("en",), parts=True)
    assert left_in(tmp_path) == parts
    assert [line for line in told.splitlines() if line.startswith("Verified")] == [
        f"Verified: {tmp_path / name}" for name in parts
    ]


def test_a_dump_whose_parts_are_not_yet_one_file_is_not_finished(mirror: FakeMirror, tmp_path: Path) -> None:
    large_wiki(mirror, recombined="waiting")
    with pytest.raises(
        ConfigError, match=r"no finished dump.*articlesmultistreamdumprecombine is not done \(waiting\)"
    ):
        mirror.fetch(tmp_path, lang=("en",))


@pytest.mark.parametrize("parts", [False, True])
def test_the_other_form_is_taken_where_there_is_no_choice(mirror: FakeMirror, tmp_path: Path, parts: bool) -> None:
    mark = "" if parts else "1"
    name = f"swwiki-20261101-pages-articles-multistream{mark}.xml.bz2"
    mirror.publish(articlesmultistreamdump={name: CONTENT})
    mirror.fetch(tmp_path, parts=parts)
    assert list(left_in(tmp_path)) == [name]


def test_the_kind_can_be_chosen(mirror: FakeMirror, tmp_path: Path) -> None:
    large_wiki(mirror)
    mirror.fetch(tmp_path, lang=("en",), kind="articles")
    assert left_in(tmp_path) == {"enwiki-20261101-pages-articles.xml.bz2": b"plain"}


def test_without_a_status_the_list_of_checksums_is_read(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    del mirror.files[STATUS]
    sums = f"{sha1(CONTENT)}  {NAME}\n{sha1(b'')}  swwiki-20261101-pages-meta-history.xml.bz2\n"
    mirror.files["/swwiki/20261101/swwiki-20261101-sha1sums.txt"] = sums.encode()
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT}
    mirror.files["/swwiki/20261101/swwiki-20261101-sha1sums.txt"] = sums.replace(sha1(CONTENT), sha1(b"x")).encode()
    with pytest.raises(InputError, match="expected sha1"):
        mirror.fetch(tmp_path / "again")


def test_the_list_of_checksums_has_parts_too(mirror: FakeMirror, tmp_path: Path) -> None:
    parts = large_wiki(mirror)
    files = mirror.files
    del files["/enwiki/20261101/dumpstatus.json"]
    names = [path.rpartition("/")[2] for path in files if "20261101/enwiki" in path]
    sums = "".join(f"{sha1(files[f'/enwiki/20261101/{name}'])}  {name}\n" for name in names)
    files["/enwiki/20261101/enwiki-20261101-sha1sums.txt"] = sums.encode()
    mirror.fetch(tmp_path, lang=("en",), parts=True)
    assert left_in(tmp_path) == parts
    del files[f"/enwiki/20261101/{next(iter(parts))}"]
    with pytest.raises(ConfigError, match="is listed, but not there"):
        mirror.fetch(tmp_path, lang=("en",), parts=True)


@pytest.mark.parametrize("size", ["102400", None, 0, -1])
def test_a_size_that_is_none_is_refused(mirror: FakeMirror, tmp_path: Path, size: object) -> None:
    mirror.publish()
    status = json.loads(mirror.files[STATUS])
    status["jobs"]["articlesmultistreamdump"]["files"][NAME]["size"] = size
    mirror.files[STATUS] = json.dumps(status).encode()
    with pytest.raises(ConfigError, match="no checksum and size"):
        mirror.fetch(tmp_path)


def test_md5_serves_where_there_is_no_sha1_and_nothing_is_taken_unverified(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    status = json.loads(mirror.files[STATUS])
    entry = status["jobs"]["articlesmultistreamdump"]["files"][NAME]
    del entry["sha1"]
    mirror.files[STATUS] = json.dumps(status).encode()
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT}
    del entry["md5"]
    mirror.files[STATUS] = json.dumps(status).encode()
    with pytest.raises(ConfigError, match="no checksum"):
        mirror.fetch(tmp_path / "again")


def test_the_command_that_is_printed_reads_the_files(mirror: FakeMirror, tmp_path: Path) -> None:
    parts = large_wiki(mirror)
    mirror.publish()
    output = tmp_path / "my dumps"
    output.mkdir()
    (output / "enwiki-20261101-pages-articles-multistream.xml.bz2").write_bytes(b"all")  # is not read twice
    told = mirror.fetch(output, lang=("sw", "en"), parts=True)
    words = shlex.split(told.partition("Make examples:")[2])
    assert words[:2] == ["polyspan-data", "anchor-mrc"] and words[-2] == "--output"
    langs, dumps = words[words.index("--lang") + 1 : words.index("--dump")], words[words.index("--dump") + 1 : -2]
    found = expand_specs("--dump", dumps, langs)
    assert found["sw"] == [str(output / NAME)] and sorted(found["en"]) == sorted(str(output / name) for name in parts)


# --- going on, and connections that fail ----------------------------------------------------------


def test_a_partial_file_is_gone_on_with(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:1000])
    mirror.fetch(tmp_path)
    assert mirror.ranges() == ["bytes=1000-"]
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_partial_file_that_is_whole_is_not_asked_for(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT)
    mirror.fetch(tmp_path)
    assert mirror.ranges() == []
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_connections_may_break_for_ever_as_long_as_something_comes(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [drop_after(1000)] * (3 * download.ATTEMPTS)
    mirror.fetch(tmp_path)
    assert mirror.ranges()[:3] == [None, "bytes=1000-", "bytes=2000-"]
    assert set(mirror.waits) == {2.0}
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_mirror_that_sends_nothing_is_given_up_and_what_came_is_kept(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [drop_after(1000)] + [drop_after(0)] * 20
    with pytest.raises(InputError, match=rf"{NAME}: the connection ended at byte 1,000 of 102,400; 6 attempts failed"):
        mirror.fetch(tmp_path)
    assert mirror.waits == [2, 4, 8, 16, 32]
    assert left_in(tmp_path) == {f"{NAME}.partial": CONTENT[:1000]}


def test_a_mirror_that_nobody_listens_at_is_given_up(mirror: FakeMirror, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="refused"):
        mirror.fetch(tmp_path, mirror="http://127.0.0.1:1")
    assert mirror.waits == [2, 4, 8, 16, 32]


def test_a_silent_connection_is_given_up_for_another(
    mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT_S", 0.1)
    mirror.publish()

    tired = threading.Event()
    in_time = []

    def stall(handler: Handler, body: bytes) -> None:
        handler.send_file(body, stop=1000)
        in_time.append(tired.wait(5))

    mirror.faults[FILE] = [stall]
    config = FetchConfig(lang=("sw",), mirror=mirror.url, output=str(tmp_path))
    fetch_wikipedia(config, lambda _: tired.set())
    assert in_time == [True]
    assert mirror.ranges() == [None, "bytes=1000-"]
    assert left_in(tmp_path) == {NAME: CONTENT}


def drip(handler: Handler, body: bytes) -> None:
    """A byte every twentieth of a second, the headers' too; often enough for a timeout never to strike."""
    for byte in b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.05)


def drip_after_some(handler: Handler, body: bytes) -> None:
    handler.send_file(body, stop=2000)
    start = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
    for byte in body[start + 2000 :]:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.05)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "SLOW_S", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("path", ["/swwiki/", STATUS, FILE])
def test_a_mirror_that_sends_a_byte_now_and_then_is_given_up(mirror: FakeMirror, tmp_path: Path, path: str) -> None:
    mirror.publish()
    mirror.faults[path] = [drip] * 20
    with pytest.raises(InputError, match=rf"{path}: \d+ bytes in \d+ s, which is too slow; 3 attempts failed"):
        mirror.fetch(tmp_path)
    assert mirror.waits == [2, 4]


@pytest.mark.usefixtures("impatient")
def test_what_a_slow_mirror_sent_is_kept_but_gains_it_no_attempts(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [drip_after_some] * 20
    with pytest.raises(InputError, match="too slow; 3 attempts failed"):
        mirror.fetch(tmp_path)
    (kept,) = left_in(tmp_path).values()
    assert len(kept) > 2000 and CONTENT.startswith(kept)


@pytest.mark.usefixtures("impatient")
def test_one_slow_connection_is_left_for_another(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults["/swwiki/"] = [drip]
    mirror.faults[FILE] = [drip_after_some]
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT} and mirror.waits == [2, 2]


def test_attempts_without_progress_are_counted(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [drop_after(1)] * 20
    with pytest.raises(InputError, match=rf"the connection ended at byte {download.ATTEMPTS} of 102,400; 6 attempts"):
        mirror.fetch(tmp_path)


def test_a_list_that_is_cut_short_is_read_again(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults["/swwiki/"] = [drop_after(10)]
    mirror.faults[STATUS] = [drop_after(10)]
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_stopping_keeps_what_came(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [drop_after(1000)]

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_wikipedia(FetchConfig(lang=("sw",), mirror=mirror.url, output=str(tmp_path)), stop)
    assert left_in(tmp_path) == {f"{NAME}.partial": CONTENT[:1000]}
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT}


@pytest.mark.parametrize(
    "fault",
    [
        whole_file,
        answer(416),
        answer(206),
        another_range,
    ],
    ids=["ignores_range", "refuses_range", "tells_no_range", "another_range"],
)
def test_a_mirror_that_cannot_go_on_sends_the_file_anew(mirror: FakeMirror, tmp_path: Path, fault: Fault) -> None:
    mirror.publish()
    (tmp_path / f"{NAME}.partial").write_bytes(b"?" * 1000)
    mirror.faults[FILE] = [fault]
    mirror.fetch(tmp_path)
    assert mirror.ranges() == ["bytes=1000-"] + ([] if fault is whole_file else [None])
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_partial_file_that_is_too_long_is_begun_anew(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT + b"more")
    mirror.fetch(tmp_path)
    assert mirror.ranges() == [None]
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_redirection_is_followed_with_the_range(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.files["/store/x"] = CONTENT
    mirror.faults[FILE] = [answer(302, Location="/store/x")]
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:1000])
    mirror.fetch(tmp_path)
    assert mirror.ranges("/store/x") == ["bytes=1000-"]
    assert left_in(tmp_path) == {NAME: CONTENT}


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_mirror_is_asked_again(mirror: FakeMirror, tmp_path: Path, code: int) -> None:
    mirror.publish()
    mirror.faults[STATUS] = [answer(code), answer(code)]
    mirror.faults[FILE] = [answer(code, Retry_After="77")]
    mirror.fetch(tmp_path)
    assert mirror.waits == [2, 4, 77]
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_date_to_come_back_at_is_kept_to(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    then = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    mirror.faults[FILE] = [answer(503, Retry_After=then), answer(503, Retry_After="some day")]
    mirror.fetch(tmp_path)
    assert 90 < mirror.waits[0] <= 100 and mirror.waits[1:] == [4]


def test_nobody_waits_for_hours(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [answer(429, Retry_After="7200")]
    with pytest.raises(InputError, match="it asks to wait 7,200 s"):
        mirror.fetch(tmp_path)
    assert mirror.waits == []


# --- what does not match --------------------------------------------------------------------------


def test_wrong_bytes_are_refused_and_not_kept(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    wrong = CONTENT[:-1] + b"?"
    mirror.files[FILE] = wrong
    with pytest.raises(InputError, match=f"expected sha1 {sha1(CONTENT)}, found {sha1(wrong)}.*repeat the command"):
        mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {}
    mirror.files[FILE] = CONTENT
    mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: CONTENT}


def test_a_partial_file_of_something_else_is_refused_in_the_end(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    (tmp_path / f"{NAME}.partial").write_bytes(b"?" * 1000)
    with pytest.raises(InputError, match="expected sha1"):
        mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {}


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"!"])
def test_a_file_of_another_length_is_refused_before_it_comes(
    mirror: FakeMirror, tmp_path: Path, content: bytes
) -> None:
    mirror.publish()
    mirror.files[FILE] = content
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:1000])
    with pytest.raises(InputError, match=f"expected 102,400 bytes, as published, found {len(content):,}"):
        mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {f"{NAME}.partial": CONTENT[:1000]}


def test_no_more_than_the_published_length_is_written(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults[FILE] = [lambda handler, body: handler.reply(200, {}, b"?" * 3 * len(body))]  # has no length
    longest = 0

    class Watched(Meter):
        def verify(self) -> None:
            nonlocal longest
            longest = self.arrived
            super().verify()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.fetch.wikipedia.Meter", Watched)
        with pytest.raises(InputError, match="expected sha1"):
            mirror.fetch(tmp_path)
    assert longest == len(CONTENT)


def test_a_file_that_is_here_is_verified_and_not_fetched(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.fetch(tmp_path)
    mirror.seen.clear()
    assert NAME in mirror.fetch(tmp_path)
    assert mirror.ranges() == []


@pytest.mark.parametrize("content", [b"short", CONTENT[:-1] + b"?"])
def test_a_file_that_is_here_and_does_not_match_is_left_alone(
    mirror: FakeMirror, tmp_path: Path, content: bytes
) -> None:
    mirror.publish()
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(InputError, match=r"expected .* found .* rm "):
        mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {NAME: content} and mirror.ranges() == []


# --- where it is written --------------------------------------------------------------------------


def test_names_that_lead_elsewhere_are_no_dump_files(mirror: FakeMirror, tmp_path: Path) -> None:
    evil = [f"../{NAME}", f"/tmp/{NAME}", f"x/{NAME}", NAME.replace("swwiki", "viwiki"), f"{NAME}\n", f"{NAME}/.."]
    mirror.publish(articlesmultistreamdump=dict.fromkeys(evil, CONTENT))
    with pytest.raises(ConfigError, match=r"no file .*-multistream\.xml\.bz2 is published"):
        mirror.fetch(tmp_path / "dumps")
    assert left_in(tmp_path) == {}


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_links_are_not_written_through(mirror: FakeMirror, tmp_path: Path, suffix: str) -> None:
    mirror.publish()
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / f"{NAME}{suffix}").symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError, match="a link or folder"):
        mirror.fetch(tmp_path / "dumps")
    assert not (tmp_path / "precious").exists() and mirror.ranges() == []


def test_a_full_disk_is_noticed_before(mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.publish()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=len(CONTENT) - 1000))
    with pytest.raises(ConfigError, match="to come"):
        mirror.fetch(tmp_path)
    assert mirror.ranges() == []
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:1000])  # what is here already needs no room
    mirror.fetch(tmp_path)


def test_two_do_not_write_one_file(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    with open(tmp_path / f"{NAME}.partial", "wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another polyspan-data is fetching"):
            mirror.fetch(tmp_path)
    assert left_in(tmp_path) == {f"{NAME}.partial": b""}


def test_a_folder_that_cannot_be_made_is_reported(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Not a directory"):
        mirror.fetch(tmp_path / "file" / "dumps")
    with pytest.raises(ConfigError, match="a file, expected a folder"):
        mirror.fetch(tmp_path / "file")


# --- arguments ------------------------------------------------------------------------------------


def test_a_date_that_is_not_there_names_those_that_are(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish("20261001")
    mirror.publish("20261101")
    with pytest.raises(ConfigError, match=r"--date 20261015: .*Dates there: 20261101 20261001\."):
        mirror.fetch(tmp_path, date="20261015")
    mirror.faults["/swwiki/"] = [answer(403)]
    with pytest.raises(ConfigError, match="No other date is listed"):
        mirror.fetch(tmp_path, date="20261015")


def test_a_dump_in_the_making_is_not_taken(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish("20261101", status="in-progress")
    mirror.publish("20261001")
    with pytest.raises(ConfigError, match=r"20261101: .*not done \(in-progress\).* 20261001"):
        mirror.fetch(tmp_path, date="20261101")


def test_a_wiki_that_is_not_there(mirror: FakeMirror, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/xyzwiki/: not found\. The mirror has no xyzwiki"):
        mirror.fetch(tmp_path, lang=("xyz",), any_lang=True)


def test_a_page_without_dates_asks_for_one(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.files["/swwiki/"] = b"Welcome in 20261101"
    with pytest.raises(ConfigError, match="lists no dates"):
        mirror.fetch(tmp_path)


def test_a_file_that_is_listed_but_not_there(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    del mirror.files[FILE]
    with pytest.raises(InputError, match="listed, but not there"):
        mirror.fetch(tmp_path)


def test_nothing_is_downloaded_unless_every_language_is_there(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    with pytest.raises(ConfigError, match="viwiki"):
        mirror.fetch(tmp_path, lang=("sw", "vi"))
    assert mirror.ranges() == []


def test_other_languages_are_taken_on_demand(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish(wiki="zh_min_nanwiki")
    with pytest.raises(ConfigError, match=r"unknown language 'zh-min-nan'.*'zh'.*--any-lang"):
        mirror.fetch(tmp_path, lang=("zh-min-nan",))
    told = mirror.fetch(tmp_path, lang=("zh-min-nan",), any_lang=True)
    assert list(left_in(tmp_path)) == ["zh_min_nanwiki-20261101-pages-articles-multistream.xml.bz2"]
    assert "anchor-mrc" not in told  # which would refuse the language
    with pytest.raises(ConfigError, match="unknown language"):
        mirror.fetch(tmp_path, lang=("../sw",), any_lang=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lang": ()}, "--lang sw"),
        ({"lang": ("vie",)}, "Did you mean 'vi'"),
        ({"date": "2026-11-01"}, "20261101"),
        ({"date": "../../../"}, "20261101"),
        ({"output": "gs://bucket/dumps"}, "folder of this machine"),
        ({"mirror": "mirror.example.org"}, "expected a URL"),
        ({"mirror": "file:///etc"}, "expected a URL"),
        ({"mirror": "https://me:secret@example.org"}, "expected a URL"),
        ({"mirror": "https://example.org/a b"}, "expected a URL"),
        ({"contact": "me\r\nX: y"}, "--contact"),
    ],
)
def test_arguments_that_cannot_work(
    mirror: FakeMirror, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        mirror.fetch(tmp_path, **options)
    assert mirror.seen == []


def test_the_mirror_comes_from_the_argument_or_the_environment(
    mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_mirror(FetchConfig(), mirror.waits.append).url == "https://dumps.wikimedia.org"
    monkeypatch.setenv("POLYSPAN_WIKIPEDIA_MIRROR", "http://127.0.0.1:1/")
    assert open_mirror(FetchConfig(), mirror.waits.append).url == "http://127.0.0.1:1"
    assert open_mirror(FetchConfig(mirror=mirror.url), mirror.waits.append).url == mirror.url


def test_every_request_says_who_asks(mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.publish()
    mirror.fetch(tmp_path / "1", contact="me@example.org")
    monkeypatch.setenv("POLYSPAN_CONTACT", "https://example.org")
    mirror.fetch(tmp_path / "2")
    agents = [request.user_agent or "" for request in mirror.seen]
    assert all(agent.startswith("polyspan") for agent in agents)
    assert all("(me@example.org)" in agent for agent in agents[:3]) and len(agents) == 6
    assert all("(https://example.org)" in agent for agent in agents[3:])


def test_a_mirror_that_forbids_is_not_asked_again(mirror: FakeMirror, tmp_path: Path) -> None:
    mirror.publish()
    mirror.faults["/swwiki/"] = [answer(403)]
    with pytest.raises(InputError, match=r"403 .*--contact"):
        mirror.fetch(tmp_path)
    assert len(mirror.seen) == 1 and mirror.waits == []


def test_a_certificate_that_is_wrong_stays_wrong(mirror: FakeMirror) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise URLError(ssl.SSLCertVerificationError("self-signed"))

    asked = download.Mirror("https://x", "polyspan", mirror.waits.append, SimpleNamespace(open=refuse))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="self-signed"):
        asked.read("swwiki/")
    assert mirror.waits == []


def test_an_endless_list_is_not_read(mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LISTING_BYTES", 1000)
    mirror.files["/swwiki/"] = b" " * 2000
    with pytest.raises(InputError, match="expected a list"):
        mirror.fetch(tmp_path)


# --- what the user sees ---------------------------------------------------------------------------


def test_progress_shows_bytes_speed_and_remaining_time() -> None:
    meter = Meter(2, 1, "x.bz2", 60_000_000, 12_000_000, 8_000_000, time.monotonic() - 4)
    assert meter.line() == "x.bz2 (1 of 2): 12 of 60 MB · 2.0 MB/s · 0:00:24 left"
    assert Meter(1, 1, "x.bz2", 60_000_000).line() == "x.bz2: 0 of 60 MB"
    meter.verify()
    assert meter.line() == "x.bz2 (1 of 2): 0 of 60 MB verified"


def command(mirror: FakeMirror, *arguments: str) -> int:
    try:
        cli.main(["fetch", "wikipedia", "--mirror", mirror.url, *arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_command(mirror: FakeMirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror.publish()
    assert command(mirror, "--lang", "sw", "--date", "20261101", "--output", str(tmp_path)) == 0
    assert left_in(tmp_path) == {NAME: CONTENT}
    assert f"--dump sw={tmp_path}/{NAME}" in capsys.readouterr().out
    assert command(mirror, "--lang", "sw", "--date", "20261102", "--output", str(tmp_path)) == 2
    assert "Dates there: 20261101." in capsys.readouterr().err
    os.truncate(tmp_path / NAME, 5)
    assert command(mirror, "--lang", "sw", "--output", str(tmp_path)) == 1
    assert "found 5" in capsys.readouterr().err
    assert command(mirror, "--lang", "sw", "--", "--runner=x") == 2


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_mirror_is_asked(
    mirror: FakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.publish()
    monkeypatch.setattr("pipelines.fetch.wikipedia.os.access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="nothing can be written to"):
        mirror.fetch(tmp_path / "new" / "dumps")
    assert mirror.seen == [] and list(tmp_path.iterdir()) == []
