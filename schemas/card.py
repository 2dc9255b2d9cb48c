"""Writes the dataset card, `README.md`, from the manifest. People and the Hugging Face hub read it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from schemas.catalog import SCHEMAS
from schemas.counts import by_count, share
from schemas.manifest import Manifest
from schemas.spec import CardText

_SIZES = (  # the hub's names
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
)

_LOAD = """\
```python
import pandas, datasets

frame = pandas.read_feather("{shard}")
examples = datasets.load_dataset("arrow", data_files="data/*.arrow", split="train")

row = examples[0]
{answers}
```

`polyspan-inspect show .` prints examples with their answers marked, and `polyspan-inspect verify .` checks every row.\
"""


def dataset_card(manifest: Manifest, license: str | None = None) -> str:
    """Returns Markdown with front matter. `license` is an identifier of the hub; None means the schema's own."""
    spec = SCHEMAS[manifest.schema]
    card = spec.card
    shard = manifest.shards[0].file if manifest.shards else "data/…"
    sections = {
        f"{card.title}: {', '.join(sorted(manifest.counts)) or 'none'}": card.what,
        "Source and license": card.source,
        "How many": _how_many(manifest, card, spec.langs),
        "What was left out": _left_out(manifest, card),
        "Loading": _LOAD.format(shard=shard, answers=card.answers),
        "How it was made": _how_made(manifest),
    }
    text = "\n\n".join(
        f"{'#' if position == 0 else '##'} {title}\n\n{body}"
        for position, (title, body) in enumerate(sections.items())
        if body is not None
    )
    return f"---\n{_front_matter(manifest, card, license or card.license)}---\n\n{text}\n"


def _front_matter(manifest: Manifest, card: CardText, license: str) -> str:
    examples = manifest.totals.examples
    # The hub knows languages by their primary subtag, which has two or three lower-case letters: zh in "zh-Hant".
    subtags = {subtag for langs in manifest.counts for subtag in langs.split("-")}
    languages = sorted(subtag for subtag in subtags if subtag.islower() and len(subtag) in (2, 3))
    # JSON is YAML. Its quotes keep Norwegian's "no" from becoming a truth value.
    values = {
        "language": languages,
        "license": license,
        "task_categories": card.tasks,
        "size_categories": [next((name for limit, name in _SIZES if examples < limit), "n>1B")],
        "tags": ["polyspan", manifest.schema.partition("/")[0], *card.tags],
        "configs": [{"config_name": "default", "data_files": "data/*.arrow"}],
    }
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _how_many(manifest: Manifest, card: CardText, langs_heading: str) -> str:
    rows = [(f"`{langs}`", *card.numbers(counts).values()) for langs, counts in sorted(manifest.counts.items())]
    numbers = card.numbers(manifest.totals)
    if len(rows) > 1:
        rows.append(("all", *numbers.values()))
    return _table((langs_heading, *numbers), rows)


def _left_out(manifest: Manifest, card: CardText) -> str:
    totals = manifest.totals
    rows = [
        (card.units.get(unit, unit), f"`{reason}`", f"{count:,}", share(count, getattr(totals, found)))
        for unit, found, _, rejects in totals.BALANCES
        for reason, count in by_count(getattr(totals, rejects))
    ]
    if not rows:
        return "Nothing."
    return _table(("what", "reason", "count", "of those found"), rows) + (
        "\n\nThe counts are exact. A sample of each kind is kept in `rejects/`: `polyspan-inspect show . --rejects`."
    )


def _how_made(manifest: Manifest) -> str:
    inputs = [
        (f"`{file.corpus}`", f"`{file.path}`", "" if file.bytes is None else f"{file.bytes:,}",
         f"`{file.sha256[:12]}…`" if file.sha256 else "")
        for file in manifest.inputs
    ]  # fmt: skip
    versions = [(f"`{name}`", f"`{version}`") for name, version in sorted(manifest.versions.items())]
    config = json.dumps(manifest.config, indent=2, ensure_ascii=False)
    return "\n\n".join(
        [
            f"By polyspan{f', commit `{manifest.commit}`' if manifest.commit else ''}, in schema `{manifest.schema}`. "
            "`manifest.json` holds all of this, and the size and checksum of every shard.",
            _table(("corpus", "file", "bytes", "SHA-256"), inputs),
            f"```json\n{config}\n```",
            _table(("library", "version"), versions),
        ]
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
