"""`polyspan-train convert`: published files of a task → a dataset folder of their records, and an account of all labels
that the files hold."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from schemas import manifest, mrc
from schemas.counts import by_count
from schemas.errors import ConfigError, InputError
from schemas.manifest import InputFile, Manifest
from schemas.mrc import MrcExample, RecordCounts, TaggingExample
from schemas.provenance import commit, polyspan_version
from schemas.rejects import MAX_EXCERPT_CHARS, Reject
from schemas.runtime.output_folder import check_output, locked, needs_tidying, recover, tidy
from schemas.verification import find_problems
from training.data.dataset_writer import check_free, write_dataset
from training.recipes.scoring import TaskName
from training.runtime.outputs import dataset_files, digest_of
from training.tasks.files import LeftOut
from training.tasks.records import Record, Records, identity, read_records

REJECTS_PER_REASON = 100  # that are kept for reading, of each language; all are counted


@dataclass(frozen=True)
class ConvertConfig:
    """What to convert. Texts and labels stay as they are, and so do ids, but for those that a language has twice: then
    the questions' `source_id` says what was published."""

    task: TaskName
    files: tuple[Path, ...]
    """As the task's authors or XTREME publish them. Their records follow one another in this order."""
    output: Path
    """The folder to write: records, rejects, manifest and dataset card."""
    langs: tuple[str, ...] = ()
    """One for each file, where its name does not say it."""
    overwrite: bool = False
    """Replace the dataset that stands in the output folder."""


class Sorted(NamedTuple):
    """What became of the records."""

    kept: list[Record]
    rejects: list[Reject]  # a sample
    counts: dict[str, RecordCounts]  # language → all of them


def run(config: ConvertConfig) -> str:
    """Writes the folder; returns what to tell. Raises `ConfigError` for what cannot work, and `InputError` naming the
    file at fault: also one that has no labels, whatever the task."""
    if folders := [path for path in config.files if path.is_dir()]:
        raise ConfigError(f"{folders[0]}: is a folder. Expected a file as the task's authors or XTREME publish it")
    recover(config.output, dataset_files)
    check_output(config.output, dataset_files, {"--files": config.files})
    if is_done(config):
        return (
            f"{config.output}: complete, nothing to do. Look at it: "
            f"polyspan-inspect show {shlex.quote(str(config.output))}\n"
        )
    check_free(config.output, config.overwrite)
    with locked(config.output):
        return _convert(config)


def is_done(config: ConvertConfig) -> bool:
    """Whether the folder holds the whole dataset that the command makes. Ends what a process that died had begun."""
    if not (config.output / manifest.FILE_NAME).is_file():
        return False
    found = manifest.load(config.output)
    if (found.config, found.commit) != (settings_of(config), commit()) or (
        found.versions["polyspan"],
        found.versions["pyarrow"],
    ) != (polyspan_version(), pa.__version__):
        return False
    if not all(path.is_file() for path in config.files) or list(found.inputs) != inputs_of(config):
        return False
    if any(find_problems(config.output, quick=True)):
        return False
    if needs_tidying(config.output):
        with locked(config.output):
            tidy(config.output, dataset_files)
    return True


def settings_of(config: ConvertConfig) -> dict[str, Any]:
    return {"task": config.task, "langs": list(config.langs)}


def inputs_of(config: ConvertConfig) -> list[InputFile]:
    return [InputFile(config.task, path.name, path.stat().st_size, digest_of(path)) for path in config.files]


def _convert(config: ConvertConfig) -> str:
    read = read_records(config.files, config.task, config.langs, labelled=True)
    found = sort_out(read)
    if not found.kept:
        reject = next(each for each in found.rejects if each.unit == "record")
        raise InputError(f"{config.files[0]}: no record can be kept: {reject.excerpt}")
    index = write_dataset(
        config.output,
        read.task.shared.schema,
        found.kept,
        found.counts,
        rejects=found.rejects,
        config=settings_of(config),
        inputs=inputs_of(config),
        overwrite=config.overwrite,
    )
    return _report(config, read, found, index)


def sort_out(read: Records) -> Sorted:
    """Records that break the contract (`schemas.mrc.problems`) are rejects, and so are their labels, and what the
    readers left out. Ids become unique in each language (of contexts and questions): the second record of id 7 gets
    7#2."""
    found = Sorted([], [], dict(read.counts))
    times: Counter[tuple[Hashable, ...]] = Counter()
    sampled: Counter[tuple[str, str, str]] = Counter()

    def reject(file: str, each: LeftOut) -> None:
        sampled[each.lang, each.unit, each.reason] += 1
        if sampled[each.lang, each.unit, each.reason] <= REJECTS_PER_REASON:
            excerpt = each.excerpt[:MAX_EXCERPT_CHARS]
            found.rejects.append(Reject(each.reason, each.unit, each.id, each.lang, file, each.place, excerpt))

    for file, each in read.left_out:
        reject(file, each)
    for file, place, record in _placed(read):
        if problems := mrc.problems(record):
            excerpt = f"{'; '.join(problems)}: {_text(record)}"
            reject(file, LeftOut("breaks_contract", "record", record.lang, record.id, place, excerpt))
            labels = mrc.labels_in(record)
            lost = {"breaks_contract": labels} if labels else {}
            found.counts[record.lang] += RecordCounts(0, -1, {"breaks_contract": 1}, 0, -labels, lost)
            continue
        unique = record
        while times[identity(unique)]:
            times[identity(record)] += 1
            unique = replace(record, id=f"{record.id}#{times[identity(record)]}")
        times[identity(unique)] += 1
        if isinstance(unique, MrcExample) and unique.id != record.id:
            unique = replace(unique, source_id=record.id)
        found.kept.append(unique)
    return found


def _placed(read: Records) -> Iterator[tuple[str, int, Record]]:
    """Name of the file and place in it, from 1, of every record."""
    records = iter(read.records)
    for source in read.sources:
        for place in range(1, source.records + 1):
            yield source.path.name, place, next(records)


def _text(record: Record) -> str:
    if isinstance(record, MrcExample):
        return f"{record.query} ||| {record.context}"
    return record.text if isinstance(record, TaggingExample) else f"{record.sentence1} ||| {record.sentence2}"


def _report(config: ConvertConfig, read: Records, found: Sorted, index: Manifest) -> str:
    files = f"{len(read.sources)} file{'s' * (len(read.sources) > 1)}"
    lines = [f"{config.output}: {len(found.kept):,} records ({index.schema}) of {files} of {config.task}", ""]
    for lang, counts in sorted(index.counts.items()):
        rejected = sum(counts.rejects()["record"].values())
        lines.append(f"  {lang:<8}{counts.examples:>10,} records" + (f", {rejected:,} rejects" if rejected else ""))
    lines += ["", *(f"{lang}: {line}" for lang, counts in sorted(index.counts.items()) for line in counts.accounts())]
    notes = by_count(dict(read.flags))
    if notes:
        width = max(len(reason) for reason, _ in notes)
        lines += ["", "noticed in the files:", *(f"  {reason:{width}}  {count:>8,} records" for reason, count in notes)]
    if read.flags["duplicate_id"]:
        lines.append("The second record of an id, in one language, now has #2 after it, and so on.")
    lines += ["", f"Look at it:  polyspan-inspect show {config.output}"]
    if any(reasons for counts in index.counts.values() for reasons in counts.rejects().values()):
        lines.append(f"Left out:    polyspan-inspect show {config.output} --rejects")
    return "".join(f"{line}\n" for line in lines)
