"""Finds and downloads the dump files of Wikipedias from Wikimedia or a mirror, and verifies their checksums.

Mirrors have Wikimedia's layout: MIRROR/swwiki/ lists dates, and MIRROR/swwiki/20261101/dumpstatus.json lists the files
of one dump with their sizes and checksums. The checksums detect damage. They come from the mirror, so whoever does not
trust it must compare them with Wikimedia's own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pipelines.fetch.download import Meter, Mirror, NotThere, PublishedFile, fetch_file
from pipelines.runtime.logs import progress
from pipelines.steps.common.paths import is_remote
from schemas.errors import ConfigError, InputError
from schemas.languages import LANGUAGES, language

WIKIMEDIA = "https://dumps.wikimedia.org"
MIRROR_VARIABLE, CONTACT_VARIABLE = "POLYSPAN_WIKIPEDIA_MIRROR", "POLYSPAN_CONTACT"
JOBS = {"multistream": "articlesmultistreamdump", "articles": "articlesdump"}  # --kind → its name in dumpstatus.json
STREAMS = {"multistream": "-multistream", "articles": ""}  # --kind → part of its files' names after `pages-articles`
DIGITS = {"sha1": 40, "md5": 32}  # the published checksums, the best first


@dataclass(frozen=True)
class FetchConfig:
    """Download the dumps of Wikipedias and verify their checksums. A command that was stopped can be repeated."""

    lang: tuple[str, ...] = ()
    """Codes of the Wikipedias' languages, separated by blanks, such as: sw vi"""
    date: str = "latest"
    """The date of the dump, such as 20261101. The value latest chooses the newest finished dump of each language."""
    kind: Literal["multistream", "articles"] = "multistream"
    """The form of the dump. Both contain the same pages; many workers can read a multistream file at once."""
    parts: bool = False
    """Download the several parts of a large wiki's dump instead of the single file."""
    mirror: str = ""
    """URL of a mirror, the part before /swwiki/20261101/. The default is the environment variable
    POLYSPAN_WIKIPEDIA_MIRROR, or else Wikimedia, whose page of dumps lists mirrors that may be faster."""
    contact: str = ""
    """Your e-mail address or web page, which is sent to the mirror. The default is the environment variable
    POLYSPAN_CONTACT. Wikimedia blocks programs that send no contact."""
    output: str = "."
    """The folder to write the files to."""
    any_lang: bool = False
    """Accept a --lang that Polyspan does not know, such as simple or zh-min-nan."""


class Dump(NamedTuple):
    """The files of one wiki's dump."""

    lang: str
    folder: str  # on the mirror: swwiki/20261101
    files: tuple[PublishedFile, ...]


def fetch_wikipedia(config: FetchConfig, sleep: Callable[[float], None] = time.sleep) -> str:
    """Downloads the missing files one after the other, and returns a text for the user with the next command.

    Raises `ConfigError` before anything is downloaded, or `InputError` if the mirror fails or a file does not match.
    """
    check(config)
    mirror = open_mirror(config, sleep)
    dumps = [find_dump(mirror, lang, config) for lang in dict.fromkeys(config.lang)]
    todo = [
        (f"{dump.folder}/{file.name}", file, os.path.join(config.output, file.name))
        for dump in dumps
        for file in dump.files
    ]
    with explained(config.output):
        os.makedirs(config.output, exist_ok=True)
        check_room(config.output, {target: file.size for _, file, target in todo})
    meter = Meter(len(todo))
    with progress(meter.line):
        for source, file, target in todo:
            meter.next(file)
            with explained(target):
                fetch_file(mirror, source, file, target, meter)
    return "\n".join([*(f"Verified: {target}" for _, _, target in todo), *next_command(dumps, config)])


# --- before anything is downloaded ----------------------------------------------------------------


def check(config: FetchConfig) -> None:
    """Raises `ConfigError` for settings that cannot work."""
    if not config.lang:
        raise ConfigError("No language. Name one or more, for instance: --lang sw")
    for lang in config.lang:
        if config.any_lang and re.fullmatch(r"[a-z]+(-[a-z]+)*", lang):
            continue
        try:
            language(lang)
        except ValueError as error:
            raise ConfigError(f"--lang {lang}: {error} Any other Wikipedia's code: add --any-lang") from None
    if config.date != "latest" and not re.fullmatch("[0-9]{8}", config.date):
        raise ConfigError(f"--date {config.date}: expected latest, or eight digits such as 20261101.")
    if is_remote(config.output):
        raise ConfigError(f"--output {config.output}: expected a folder of this machine. Copy the files from there.")
    if os.path.lexists(config.output) and not os.path.isdir(config.output):
        raise ConfigError(f"--output {config.output}: a file, expected a folder.")
    existing = os.path.abspath(config.output)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    if not os.access(existing, os.W_OK):
        raise ConfigError(f"--output {config.output}: nothing can be written to {existing}. Name another folder.")


def open_mirror(config: FetchConfig, sleep: Callable[[float], None]) -> Mirror:
    url = (config.mirror or os.environ.get(MIRROR_VARIABLE) or WIKIMEDIA).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[^!-~]|[@?#]", url):
        source = "--mirror" if config.mirror else MIRROR_VARIABLE
        raise ConfigError(f"{source} {url}: expected a URL without password, query or fragment, such as {WIKIMEDIA}")
    contact = config.contact or os.environ.get(CONTACT_VARIABLE, "")
    if re.search(r"[^ -~]|[()]", contact):
        raise ConfigError(f"--contact {contact!r}: expected an e-mail address or a URL, in ASCII, without parentheses.")
    try:
        ours = f"polyspan/{version('polyspan')}"
    except PackageNotFoundError:
        ours = "polyspan"
    python = ".".join(map(str, sys.version_info[:2]))
    return Mirror(url, f"{ours}{contact and f' ({contact})'} urllib/{python}", sleep)


def find_dump(mirror: Mirror, lang: str, config: FetchConfig) -> Dump:
    """Finds the dump of the requested date, or the newest finished one. Raises `ConfigError` if there is none."""
    wiki = lang.replace("-", "_") + "wiki"
    dates = [config.date] if config.date != "latest" else published_dates(mirror, wiki)
    problems = []
    for date in dates:
        try:
            return Dump(lang, f"{wiki}/{date}", published_files(mirror, wiki, date, config))
        except _Unfinished as error:
            problems.append(f"{date}: {error}.")
    if config.date == "latest":
        found = " ".join(problems) or "It lists no dates. Name one: --date 20261101"
        raise ConfigError(f"{mirror.url}/{wiki}/ has no finished dump. {found}")
    try:
        others = [date for date in published_dates(mirror, wiki) if date != config.date]
    except InputError:  # it lists nothing
        others = []
    hint = f"Dates there: {' '.join(others)}." if others else "No other date is listed there; see --mirror."
    raise ConfigError(f"--date {problems[0]} ({mirror.url}/{wiki}/) {hint}")


def published_dates(mirror: Mirror, wiki: str) -> list[str]:
    """Reads the dates that the wiki's page on the mirror links to, the newest first."""
    try:
        page = mirror.read(f"{wiki}/").decode("latin-1")  # the page may be in any superset of ASCII
    except NotThere as error:
        raise ConfigError(
            f"{error}: not found. The mirror has no {wiki}, or is no mirror of {WIKIMEDIA}: see --lang and --mirror."
        ) from None
    return sorted(set(re.findall(r"""href=["']?(?:[^"'> ]*/)?([0-9]{8})/?["'> ]""", page, re.IGNORECASE)), reverse=True)


def published_files(mirror: Mirror, wiki: str, date: str, config: FetchConfig) -> tuple[PublishedFile, ...]:
    """Returns the single file or the parts, as requested, or the form that exists; in the order of the pages.

    Raises `_Unfinished` if neither is published.
    """
    folder, job = f"{wiki}/{date}", JOBS[config.kind]
    try:
        checksums = files_of_status(mirror.read(f"{folder}/dumpstatus.json"), job, config.parts)
    except NotThere:
        checksums = files_of_sums(mirror, folder, f"{wiki}-{date}-sha1sums.txt")
    stem = re.escape(f"{wiki}-{date}-pages-articles{STREAMS[config.kind]}")
    name_of_part = re.compile(stem + r"([0-9]*)\.xml(?:-p([0-9]+)p[0-9]+)?\.bz2")
    numbered = []
    for name, published in checksums.items():
        if match := name_of_part.fullmatch(name):  # it contains no "/", so that nothing is written outside of --output
            numbered.append(([int(number or 0) for number in match.groups()], name, published))
    numbered.sort()
    one = [(name, published) for numbers, name, published in numbered if not any(numbers)]
    parts = [(name, published) for numbers, name, published in numbered if any(numbers)]
    chosen = (parts or one) if config.parts else (one or parts)
    if not chosen:
        raise _Unfinished(f"no file …-pages-articles{STREAMS[config.kind]}.xml.bz2 is published")
    return tuple(dump_file(mirror, folder, name, published) for name, published in chosen)


def files_of_status(text: bytes, job: str, parts: bool) -> dict[str, dict[str, Any]]:
    """Maps the files of a finished job of dumpstatus.json to their entries.

    For large wikis, `job` writes parts, and another job, whose name ends in `recombine`, joins them to one file. Raises
    `_Unfinished` if the job that writes the requested form is missing or not done.
    """
    try:
        jobs = json.loads(text)["jobs"]
        name = job if parts or f"{job}recombine" not in jobs else f"{job}recombine"
        if name not in jobs:
            raise _Unfinished(f"there is no {name}")
        if jobs[name]["status"] != "done":
            raise _Unfinished(f"{name} is not done ({jobs[name]['status']})")
        return {file: dict(published) for file, published in jobs[name]["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _Unfinished("its dumpstatus.json cannot be understood") from None


def files_of_sums(mirror: Mirror, folder: str, name: str) -> dict[str, dict[str, Any]]:
    """Returns the same from the list of checksums, which has no sizes, for dumps without dumpstatus.json.

    Old dumps have none, nor have mirrors that hold only some of the files.
    """
    try:
        lines = mirror.read(f"{folder}/{name}").decode("latin-1").splitlines()
    except NotThere:
        raise _Unfinished(f"neither dumpstatus.json nor {name} is there") from None
    return {fields[1]: {"sha1": fields[0]} for line in lines if len(fields := line.split()) == 2}


def dump_file(mirror: Mirror, folder: str, name: str, published: Mapping[str, Any]) -> PublishedFile:
    """Returns a file with its best checksum and its size. Raises `_Unfinished` if one of them is missing."""
    for algorithm, digits in DIGITS.items():
        digest = str(published.get(algorithm, "")).lower()
        if re.fullmatch(f"[0-9a-f]{{{digits}}}", digest):
            try:
                size = published["size"] if "size" in published else mirror.size(f"{folder}/{name}")
            except NotThere:
                raise _Unfinished(f"{name} is listed, but not there") from None
            if isinstance(size, int) and size > 0:
                return PublishedFile(name, size, algorithm, digest)
    raise _Unfinished(f"no checksum and size of {name} are published")


def check_room(folder: str, sizes: Mapping[str, int]) -> None:
    """Raises `ConfigError` if the missing files do not fit on the disk, or if a link or folder has a file's name."""
    missing = 0
    for target, size in sizes.items():
        for path in (target, f"{target}.partial"):
            if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
                raise ConfigError(f"{path}: a link or folder, expected a file. Name another folder: --output FOLDER")
        if not os.path.exists(target):
            partial = os.path.getsize(f"{target}.partial") if os.path.exists(f"{target}.partial") else 0
            missing += max(0, size - partial)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise ConfigError(
            f"--output {folder}: {missing / 1e9:,.1f} GB are to come, but {free / 1e9:,.1f} GB are free there. "
            "Make room, or name another folder: --output FOLDER"
        )


def next_command(dumps: Sequence[Dump], config: FetchConfig) -> list[str]:
    """Returns the command that makes examples of the dumps, for the languages that Polyspan knows."""
    known = [dump for dump in dumps if dump.lang in LANGUAGES]
    if not known:
        return []
    specs = []
    for dump in known:
        name = dump.files[0].name
        if len(dump.files) > 1:
            stem = dump.folder.replace("/", "-") + "-pages-articles" + STREAMS[config.kind]
            name = f"{stem}[0-9]*.xml*.bz2"
        specs.append(f"{dump.lang}={os.path.join(config.output, name)}")
    words = ["polyspan-data", "anchor-mrc", "--lang", *(dump.lang for dump in known), "--dump", *specs]
    return [f"Make examples:  {shlex.join(words)} --output anchor-mrc"]


class _Unfinished(Exception):
    """Raised if a date's dump cannot be used; the message follows the date and a colon."""


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turns errors of the operating system into `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from error
