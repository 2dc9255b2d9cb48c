"""Paths as users write them: expands patterns, compares paths, and gives files short names that differ."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from schemas.did_you_mean import closest
from schemas.errors import ConfigError
from schemas.languages import LanguagePair

_WILDCARD = re.compile(r"\*+|\?|\[[^]]+\]")
_NAMES_COMPARED = 10_000


def is_remote(path: str) -> bool:
    """Returns whether the path has a scheme (`gs://…`), so that one of Beam's file systems opens it."""
    return "://" in path


def identity(path: str) -> str:
    """Returns the absolute path, which is the same for every way to write a path. Links are not resolved."""
    return path if is_remote(path) else os.path.abspath(path)


def match_paths(pattern: str) -> dict[tuple[str, ...], str]:
    """Finds the files that a path or pattern names, in the order of their paths, by what each wildcard matched.

    `*`, `?` and `[…]` match within one folder's or file's name. A file whose name holds such characters is found too.

    For `data/news-*.en` it returns, for instance,

        {("2023",): "data/news-2023.en", ("2024",): "data/news-2024.en"}

    Raises `ConfigError` if there is no file, and suggests similar names.
    """
    if not is_remote(pattern):
        pattern = re.sub("/+", "/", os.path.expanduser(pattern))
        if os.path.isfile(pattern):
            return {(): pattern}
    elif not _WILDCARD.search(pattern):
        return {(): pattern} if _list(pattern) else _refuse(pattern)
    to_groups = re.compile(_grouped(pattern), re.DOTALL)
    matches = ((to_groups.fullmatch(path), path) for path in sorted(_list(pattern)))
    return {match.groups(): path for match, path in matches if match} or _refuse(pattern)


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """Returns each path's base name. If several share one, as many parent folders are added as make them differ.

    >>> distinct_names(["/a/2023/news.en", "/a/2024/news.en", "/b/2024/web.en"])
    {'/a/2023/news.en': '2023/news.en', '/a/2024/news.en': '2024/news.en', '/b/2024/web.en': 'web.en'}
    """
    namesakes: defaultdict[str, list[list[str]]] = defaultdict(list)
    for path in dict.fromkeys(paths):
        parts = path.split("/")
        namesakes[parts[-1]].append(parts)
    names = {}
    for group in namesakes.values():
        depth = 1
        while len({tuple(parts[-depth:]) for parts in group}) < len(group):
            depth += 1
        names.update({"/".join(parts): "/".join(parts[-depth:]) for parts in group})
    return names


def path_of_each_pair(option: str, path: str, pairs: Sequence[LanguagePair]) -> dict[LanguagePair, str]:
    """Replaces `{pair}` in the path of an aligner's model by each language pair.

    Raises `ConfigError` if several pairs would share one path.

    >>> pairs = [LanguagePair("en", "vi"), LanguagePair("en", "hi")]
    >>> list(path_of_each_pair("--model", "{pair}.model", pairs).values())
    ['en-vi.model', 'en-hi.model']
    """
    if len(pairs) > 1 and "{pair}" not in path:
        raise ConfigError(
            f"{option} {path}: one model cannot serve {len(pairs)} language pairs. Put {{pair}} into the path."
        )
    return {pair: path.replace("{pair}", str(pair)) for pair in pairs}


def _list(pattern: str) -> list[str]:
    if not is_remote(pattern):
        # Beam's own matching of a local pattern walks through every folder below its first one.
        return [path for path in glob.glob(pattern) if os.path.isfile(path)]
    from apache_beam.io.filesystems import FileSystems

    try:
        return [metadata.path for metadata in FileSystems.match([pattern])[0].metadata_list]
    except (OSError, ValueError) as error:  # no such file system, no credentials …
        raise ConfigError(f"{pattern}: cannot be looked up: {error}") from error


def _grouped(pattern: str) -> str:
    """Turns a pattern into a regular expression, with a group for each wildcard."""
    expression, end = "", 0
    for wildcard in _WILDCARD.finditer(pattern):
        text = wildcard[0]
        group = {"*": "[^/]*", "?": "[^/]"}.get(text[0]) or re.sub(r"^\[!", "[^", text.replace("\\", "\\\\"))
        expression += re.escape(pattern[end : wildcard.start()]) + f"({group})"
        end = wildcard.end()
    return expression + re.escape(pattern[end:])


def _refuse(pattern: str) -> dict[tuple[str, ...], str]:
    what = "no file matches" if _WILDCARD.search(pattern) else "no such file"
    if is_remote(pattern):
        raise ConfigError(f"{pattern}: {what}")
    if os.path.isdir(pattern):
        inside = os.path.join(pattern, "")
        raise ConfigError(f"{pattern}: a folder, expected a file. Name the files in it: {inside}*.en,{inside}*.vi")
    folder, name = os.path.split(pattern)
    if not _WILDCARD.search(folder) and not os.path.isdir(folder or "."):
        raise ConfigError(f"{pattern}: {what}: there is no folder {folder}")
    nearest = []
    if not _WILDCARD.search(folder):
        with os.scandir(folder or ".") as entries:
            names = sorted(entry.name for entry in islice(entries, _NAMES_COMPARED))
        nearest = [os.path.join(folder, near) for near in closest(name, names)]
    raise ConfigError(f"{pattern}: {what}" + (f". Did you mean {' or '.join(nearest)}?" if nearest else ""))
