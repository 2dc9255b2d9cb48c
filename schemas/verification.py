"""Whether a dataset folder is what its manifest says, and every row what the contract says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas import anchor_mrc, candidates, clism, manifest, mrc
from schemas.counts import RECALL_AT
from schemas.manifest import DatasetError, Manifest, ShardEntry
from schemas.shards import EXAMPLES, SCHEMAS, check_nulls, check_shard, langs_of, open_shard, stray_files


class Rules(NamedTuple):
    """What the rows of a schema have to agree with."""

    problems: Callable[[Any], list[str]]  # of one example
    counted: Callable[[pa.Table], pa.Table]  # rows → `langs` and what the manifest counts of them, by its names there
    identity: tuple[str, ...] = ("id",)  # columns whose values, together, no two rows have


def count_pairs(rows: pa.Table) -> pa.Table:
    table = pa.table({"langs": langs_of(rows), "questions": pc.list_value_length(rows["questions"])})
    groups = table.group_by("langs").aggregate([([], "count_all"), ("questions", "sum")])
    return pa.table({"langs": groups["langs"], "examples": groups["count_all"], "questions": groups["questions_sum"]})


def count_anchors(rows: pa.Table) -> pa.Table:
    groups = rows.group_by("lang").aggregate([([], "count_all"), ("answerable", "sum"), ("entity", "count_distinct")])
    unanswerable = pc.subtract(groups["count_all"], groups["answerable_sum"].cast(pa.int64()))
    return pa.table(
        {
            "langs": groups["lang"],
            "answerable": groups["answerable_sum"],
            "unanswerable": unanswerable,
            "entities": groups["entity_count_distinct"],
        }
    )


def count_records(langs_of_labels: Callable[[pa.RecordBatch], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    """`langs_of_labels`: rows → the language of each label that `mrc.labels_in` counts in them."""

    def counted(rows: pa.Table) -> pa.Table:
        examples, labels = Counter[str](), Counter[str]()
        for batch in rows.to_batches():
            for tally, langs in ((examples, batch["lang"]), (labels, langs_of_labels(batch))):
                tally.update({each["values"]: each["counts"] for each in pc.value_counts(langs).to_pylist()})
        langs = list(examples)
        return pa.table(
            {
                "langs": pa.array(langs, pa.string()),
                "examples": pa.array([examples[lang] for lang in langs], pa.int64()),
                "labels_kept": pa.array([labels[lang] for lang in langs], pa.int64()),
            }
        )

    return counted


def langs_of_answers(batch: pa.RecordBatch) -> pa.Array:
    return batch["lang"].take(pc.list_parent_indices(batch["answers"]))


def langs_of_entities(batch: pa.RecordBatch) -> pa.Array:
    begins = pc.starts_with(pc.list_flatten(batch["tags"]), "B-")
    return batch["lang"].take(pc.list_parent_indices(batch["tags"]).filter(begins))


def langs_of_pairs(batch: pa.RecordBatch) -> pa.Array:
    return batch["lang"].filter(pc.is_valid(batch["label"]))


def count_hits(rows: pa.Table) -> pa.Table:
    hits = {f"hits_at_{k}": pc.fill_null(pc.less_equal(rows["gold_rank"], k), False) for k in RECALL_AT}
    table = pa.table({"lang": rows["lang"], **hits})
    groups = table.group_by("lang").aggregate([([], "count_all"), *((name, "sum") for name in hits)])
    return pa.table(
        {
            "langs": groups["lang"],
            "examples": groups["count_all"],
            **{name: groups[f"{name}_sum"] for name in hits},
        }
    )


# Parallel benchmarks have the same ids in every language; MLQA asks a question of one id in seven of each context.
RULES = {
    "anchor_mrc/1": Rules(anchor_mrc.problems, count_anchors),
    "candidates/1": Rules(candidates.problems, count_hits, ()),  # published ids may not tell questions apart
    "clism/1": Rules(clism.problems, count_pairs),
    "mrc/1": Rules(mrc.problems, count_records(langs_of_answers), ("lang", "id")),
    "mrc/2": Rules(mrc.problems, count_records(langs_of_answers), ("lang", "query_lang", "id")),
    "pair/1": Rules(mrc.problems, count_records(langs_of_pairs), ("lang", "id")),
    "tagging/1": Rules(mrc.problems, count_records(langs_of_entities), ("lang", "id")),
}


def find_problems(folder: str | Path, quick: bool = False) -> Iterator[str]:
    """Everything wrong with a dataset, one sentence each, as it is found; `quick` does not look at rows.

    Raises `DatasetError` if the folder is not a dataset, or not of a schema that this release knows.
    """
    folder = Path(folder)
    index = manifest.load(folder)
    yield from (f"{manifest.FILE_NAME}: {problem}" for problem in index.problems())
    yield from (f"{name}: stands in the folder, but not in the manifest" for name in stray_files(folder, index))
    whole: list[tuple[ShardEntry, str]] = []
    shards = [(shard, index.schema) for shard in index.shards] + [(shard, "rejects/1") for shard in index.rejects]
    for shard, schema_name in shards:
        try:
            check_shard(folder / shard.file, shard.info, schema_name)
            whole.append((shard, schema_name))
        except DatasetError as error:
            yield str(error)
    if quick:
        return
    yield from _example_problems(folder, index, [shard for shard, name in whole if name == index.schema])
    yield from _reject_problems(folder, index, [shard for shard, name in whole if name == "rejects/1"])


def _example_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    rules = RULES[index.schema]
    from_row: Callable[[dict[str, Any]], Any] = EXAMPLES[index.schema].from_row
    looked_at = [SCHEMAS[index.schema].empty_table()]  # memory-mapped
    for shard in shards:
        start = 0
        for batch in open_shard(folder / shard.file, index.schema):
            try:
                batch.validate(full=True)
                check_nulls(batch, batch.schema)
            except ValueError as error:  # of which ArrowInvalid is one
                yield f"{shard.file} rows {start} to {start + batch.num_rows - 1}: {error}"
                start += batch.num_rows
                continue
            looked_at.append(pa.Table.from_batches([batch]))
            examples = map(from_row, batch.to_pylist())
            for row, (example, langs) in enumerate(zip(examples, langs_of(batch).to_pylist(), strict=True), start):
                found = rules.problems(example)
                if langs not in index.counts:
                    found.append(f"{langs} has no counts in the manifest")
                yield from (f"{shard.file} row {row} (id {example.id}): {problem}" for problem in found)
            start += batch.num_rows
    rows = pa.concat_tables(looked_at)
    if rules.identity:
        yield from _repeated(rows.select(rules.identity))
    if len(shards) < len(index.shards):
        return  # what is missing has been said
    table = rules.counted(rows)
    counted = {of["langs"]: of for of in table.to_pylist()}
    names = [name for name in table.column_names if name != "langs"]
    for langs, counts in sorted(index.counts.items()):
        for name in (each for each in names if each in counts.to_json()):  # older datasets do not count labels
            expected, held = getattr(counts, name), counted.get(langs, {}).get(name, 0)
            if expected != held:
                yield f"{langs}: the manifest counts {expected} {name}, but the shards hold {held}"


def _repeated(ids: pa.Table) -> Iterator[str]:
    values = ids.group_by(ids.column_names, use_threads=False).aggregate([([], "count_all")])
    for repeated in values.filter(pc.greater(values["count_all"], 1)).to_pylist():
        count = repeated.pop("count_all")
        name = ", ".join(f"{column} {value}" for column, value in repeated.items() if value is not None)
        yield f"{name} stands in {count} rows: look at them with show --id"


def _reject_problems(folder: Path, index: Manifest, shards: list[ShardEntry]) -> Iterator[str]:
    kept: Counter[tuple[str, str, str]] = Counter()
    for shard in shards:
        for batch in open_shard(folder / shard.file, "rejects/1"):
            kept.update(zip(*(batch[name].to_pylist() for name in ("pair", "unit", "reason")), strict=True))
    counted = {
        (langs, unit, reason): count
        for langs, counts in index.counts.items()
        for unit, rejects in counts.rejects().items()
        for reason, count in rejects.items()
    }
    for key, count in sorted(kept.items()):
        if count > counted.get(key, 0):
            langs, unit, reason = key
            yield f"{langs}: {count} {unit} rejects {reason} are kept, but the manifest counts {counted.get(key, 0)}"
