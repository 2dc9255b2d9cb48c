"""`polyspan-train convert`: writes the records of a task's published files to a dataset folder, and accounts for all
labels of the files."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from schemas import mrc
from schemas.counts import by_count
from schemas.errors import ConfigError, InputError
from schemas.manifest import InputFile, Manifest
from schemas.mrc import MrcExample, RecordCounts, TaggingExample
from schemas.rejects import MAX_EXCERPT_CHARS, Reject
from schemas.runtime.output_folder import check_output, locked, needs_tidying, recover, tidy
from training.data.dataset_writer import check_free, holds_dataset, write_dataset
from training.recipes.scoring import TaskName
from training.runtime.outputs import dataset_files, digest_of
from training.tasks.files import LeftOut
from training.tasks.records import Record, Records, identity, read_records

REJECTS_PER_REASON = 100  # the most that are stored for each language and reason; all are counted


@dataclass(frozen=True)
class ConvertConfig:
    """Writes a benchmark's records as a dataset. Texts, labels and ids do not change, with one exception: where several
    records of a language have the same id, the second gets `ID#2`, and so on; `source_id` of such questions keeps the
    published id."""

    task: TaskName
    files: tuple[Path, ...]
    """Files as the task's authors or XTREME publish them. Records are stored in the order of the files."""
    output: Path
    """The folder to write: records, rejects, manifest and dataset card."""
    langs: tuple[str, ...] = ()
    """One language for each file, in their order, for files whose names do not say it."""
    overwrite: bool = False
    """Replace an existing dataset in the output folder."""


class Sorted(NamedTuple):
    """The records of a dataset and its rejects."""

    kept: list[Record]
    rejects: list[Reject]  # a sample
    counts: dict[str, RecordCounts]  # language → counts of all records


def run(config: ConvertConfig) -> str:
    """Writes the folder and returns the text to print. Raises `ConfigError` for what cannot work, and `InputError`
    naming the file at fault, such as a file without labels."""
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
    """Returns whether the folder holds the complete dataset of this command. Completes what a killed process began."""
    if not all(path.is_file() for path in config.files):
        return False
    if not holds_dataset(config.output, settings_of(config), inputs_of(config)):
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
    sorted_out = sort_out(read)
    if not sorted_out.kept:
        reject = next(reject for reject in sorted_out.rejects if reject.unit == "record")
        raise InputError(f"{config.files[0]}: no record can be kept: {reject.excerpt}")
    index = write_dataset(
        config.output,
        read.task.shared.schema,
        sorted_out.kept,
        sorted_out.counts,
        rejects=sorted_out.rejects,
        config=settings_of(config),
        inputs=inputs_of(config),
        overwrite=config.overwrite,
    )
    return _report(config, read, sorted_out, index)


def sort_out(read: Records) -> Sorted:
    """Separates the records of the dataset from the rejects: records that break the contract (`schemas.mrc.problems`)
    and what the readers left out. Ids become unique in each language (of contexts and questions): the second record of
    id 7 gets 7#2."""
    result = Sorted([], [], dict(read.counts))
    times: Counter[tuple[Hashable, ...]] = Counter()
    sampled: Counter[tuple[str, str, str]] = Counter()

    def reject(file: str, lost: LeftOut) -> None:
        sampled[lost.lang, lost.unit, lost.reason] += 1
        if sampled[lost.lang, lost.unit, lost.reason] <= REJECTS_PER_REASON:
            excerpt = lost.excerpt[:MAX_EXCERPT_CHARS]
            result.rejects.append(Reject(lost.reason, lost.unit, lost.id, lost.lang, file, lost.place, excerpt))

    for file, lost in read.left_out:
        reject(file, lost)
    for file, place, record in _placed(read):
        if problems := mrc.problems(record):
            excerpt = f"{'; '.join(problems)}: {_text(record)}"
            reject(file, LeftOut("breaks_contract", "record", record.lang, record.id, place, excerpt))
            labels = mrc.labels_in(record)
            lost_labels = {"breaks_contract": labels} if labels else {}
            result.counts[record.lang] += RecordCounts(0, -1, {"breaks_contract": 1}, 0, -labels, lost_labels)
            continue
        unique = record
        while times[identity(unique)]:
            times[identity(record)] += 1
            unique = replace(record, id=f"{record.id}#{times[identity(record)]}")
        times[identity(unique)] += 1
        if isinstance(unique, MrcExample) and unique.id != record.id:
            unique = replace(unique, source_id=record.id)
        result.kept.append(unique)
    return result


def _placed(read: Records) -> Iterator[tuple[str, int, Record]]:
    """Yields every record with the name of its file and its place in it, from 1."""
    records = iter(read.records)
    for source in read.sources:
        for place in range(1, source.records + 1):
            yield source.path.name, place, next(records)


def _text(record: Record) -> str:
    if isinstance(record, MrcExample):
        return f"{record.query} ||| {record.context}"
    return record.text if isinstance(record, TaggingExample) else f"{record.sentence1} ||| {record.sentence2}"


def _report(config: ConvertConfig, read: Records, sorted_out: Sorted, index: Manifest) -> str:
    files = f"{len(read.sources)} file{'s' * (len(read.sources) > 1)}"
    lines = [f"{config.output}: {len(sorted_out.kept):,} records ({index.schema}) of {files} of {config.task}", ""]
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
