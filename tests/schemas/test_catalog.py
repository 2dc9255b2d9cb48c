"""A schema needs its specification and one line in the catalogue, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from schemas.card import dataset_card
from schemas.catalog import REJECTS, SCHEMAS, arrow_schema
from schemas.counts import Balance, Counts
from schemas.errors import DatasetError
from schemas.inspection.cli import main
from schemas.inspection.tallies import Tallies, ledger_lines, quantiles, quantiles_line, tally
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry, load
from schemas.rejects import Reject
from schemas.shards import langs_of, read_examples, shard_name, write_shard
from schemas.spec import CardText, SchemaSpec, View

# --- a schema as a module of its own would define it ------------------------------------------------------------------

ARROW_SCHEMA = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("id", "lang", "text")],
    metadata={"polyspan.schema": "headline/1"},
)


@dataclass(frozen=True, slots=True)
class Headline:
    id: str
    lang: str
    text: str

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Headline:
        return cls(**row)


REJECT_REASONS = {"line": {"too_short": "The headline has a single word."}}


@dataclass(frozen=True, slots=True)
class HeadlineCounts(Counts):
    BALANCES = (Balance("line", "lines_read", "examples", "line_rejects"),)
    REJECT_REASONS = REJECT_REASONS

    lines_read: int = 0
    examples: int = 0
    line_rejects: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> str:
        return f"{self.examples:,} headlines"


def problems(example: Headline) -> list[str]:
    return [] if " " in example.text else ["text has a single word"]


def counted(rows: pa.Table) -> pa.Table:
    groups = rows.group_by("lang").aggregate([([], "count_all")])
    return pa.table({"langs": groups["lang"], "examples": groups["count_all"]})


def render_example(example: Headline, color: bool) -> str:
    return f"{example.lang}  {example.id}\n  {example.text}\n"


def tally_rows(tallies: Tallies, batch: pa.RecordBatch) -> None:
    tally(tallies, "chars", langs_of(batch), pc.utf8_length(batch["text"]))


def language_statistics(lang: str, counts: HeadlineCounts, tallies: dict[str, Counter[Any]]) -> dict[str, Any]:
    return {**counts.to_json(), "chars": quantiles(tallies["chars"])}


def render_statistics(name: str, numbers: dict[str, Any]) -> list[str]:
    lines = []
    for lang, values in numbers["languages"].items():
        lines += [*ledger_lines(lang, values, HeadlineCounts), f"  characters  {quantiles_line(values['chars'])}"]
    return lines


VIEW = View(render_example, tally_rows, language_statistics, render_statistics)

SPEC = SchemaSpec(
    arrow=ARROW_SCHEMA,
    example=Headline,
    counts=HeadlineCounts,
    problems=problems,
    counted=counted,
    card=CardText(
        title="Headlines",
        what="Each row is a headline.",
        source=None,
        license="unknown",
        tasks=("text-classification",),
        tags=("news",),
        numbers=lambda counts: {"headlines": f"{counts.examples:,}"},
        answers='print(row["text"])',
    ),
    view=f"{__name__}:VIEW",
)

# --- its way from rows to the terminal --------------------------------------------------------------------------------

HEADLINES = [Headline("1", "en", "Sea rises"), Headline("2", "en", "Prices fall"), Headline("3", "vi", "Giá giảm")]


@pytest.fixture
def headlines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A dataset folder of the dummy schema, which is in the catalogue as long as the test runs."""
    monkeypatch.setitem(SCHEMAS, SPEC.name, SPEC)
    return write(tmp_path / "news", HEADLINES)


def write(folder: Path, rows: list[Headline]) -> Path:
    counts = {"en": HeadlineCounts(2, 2).with_rejects("line", {"too_short": 1}), "vi": HeadlineCounts(1, 1)}
    counts["en"] += HeadlineCounts(lines_read=1)
    reject = Reject("too_short", "line", "4", "en", "news", 4, "Sold!")
    manifest = Manifest(
        schema=SPEC.name,
        shards=(write_file(folder, f"data/{shard_name(0, 1)}", SPEC.name, [row.to_row() for row in rows]),),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", REJECTS, [asdict(reject)]),),
        counts=counts,
        config={},
        versions={},
        inputs=(InputFile("news", "news.txt", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8")
    return folder


def write_file(folder: Path, file: str, schema: str, rows: list[dict[str, Any]]) -> ShardEntry:
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    with (folder / file).open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, table, table.schema))


def test_a_new_schema_is_written_and_read_back(headlines):
    assert list(read_examples(headlines, verify=True)) == HEADLINES
    assert load(headlines).totals == HeadlineCounts(4, 3, {"too_short": 1})


def test_a_new_schema_has_a_card(headlines):
    card = (headlines / "README.md").read_text(encoding="utf-8")
    assert "# Headlines: en, vi\n\nEach row is a headline.\n" in card
    assert "| language | headlines |\n| --- | --- |\n| `en` | 2 |\n| `vi` | 1 |\n| all | 3 |\n" in card
    assert "| line | `too_short` | 1 | 25.0% |" in card and 'print(row["text"])' in card


def test_a_new_schema_is_verified(headlines, tmp_path, capsys):
    assert main(["verify", str(headlines)]) == 0
    assert capsys.readouterr().out.startswith("news: ok, 3 headlines in 1 shards")
    broken = write(tmp_path / "broken", [HEADLINES[0], Headline("1", "en", "Sold!")])
    assert main(["verify", str(broken)]) == 1
    out = capsys.readouterr().out
    assert "data/part-00000-of-00001.arrow row 1 (id 1): text has a single word\n" in out
    assert "id 1 occurs in 2 rows" in out
    assert "vi: the manifest counts 1 examples, but the shards hold 0\n" in out


def test_a_new_schema_is_shown_with_its_statistics_and_rejects(headlines, capsys):
    assert main(["show", str(headlines), "--lang", "vi"]) == 0
    assert capsys.readouterr().out == "vi  3\n  Giá giảm\n"
    assert main(["show", str(headlines), "--rejects"]) == 0
    assert "line: too_short. The headline has a single word.\n  Sold!\n" in capsys.readouterr().out
    assert main(["stats", str(headlines)]) == 0
    out = capsys.readouterr().out
    assert "en  3 lines read → 2 examples (66.7% kept)\n" in out and "The headline has a single word.\n" in out
    assert "  characters  min 8 ·" in out


# --- the catalogue ----------------------------------------------------------------------------------------------------


def test_the_catalogue_names_each_schema_as_its_files_do():
    assert [spec.name for spec in SCHEMAS.values()] == list(SCHEMAS)
    assert list(SCHEMAS) == sorted(SCHEMAS)


@pytest.mark.parametrize("spec", SCHEMAS.values(), ids=SCHEMAS)
def test_a_specification_names_columns_that_exist_and_a_view(spec):
    named = set(spec.identity)
    assert named <= set(spec.arrow.names)
    assert isinstance(spec.load_view(), View)


def test_a_schema_that_is_not_in_the_catalogue_is_refused(headlines, monkeypatch):
    monkeypatch.delitem(SCHEMAS, SPEC.name)
    with pytest.raises(DatasetError, match="schema headline/1 is not one that this release of polyspan reads"):
        load(headlines)
