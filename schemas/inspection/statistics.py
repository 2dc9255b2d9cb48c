"""What a dataset's rows are like in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas import manifest
from schemas.catalog import SCHEMAS
from schemas.inspection.known_names import check_known
from schemas.inspection.tallies import no_tallies
from schemas.shards import read_shards


def statistics(folder: str | Path, langs: str | None = None) -> dict[str, Any]:
    """Returns what `polyspan-inspect stats` prints, as plain JSON values. Reads the rows once, in batches."""
    index = manifest.load(folder)
    spec = SCHEMAS[index.schema]
    check_known(spec.langs, langs, index.counts)
    view = spec.load_view()
    tallies = no_tallies()
    for batch in read_shards(folder):
        view.tally_rows(tallies, batch)
    return {
        "schema": index.schema,
        "shards": len(index.shards),
        "rows": sum(shard.rows for shard in index.shards),
        "bytes": sum(shard.bytes for shard in index.shards),
        "totals": index.totals.to_json(),
        f"{spec.langs}s": {
            name: view.langs_statistics(name, index.counts[name], tallies[name])
            for name in (sorted(index.counts) if langs is None else [langs])
        },
    }


def render_statistics(name: str, numbers: dict[str, Any]) -> str:
    """Returns what `statistics` returned as text for people."""
    return "".join(f"{line}\n" for line in SCHEMAS[numbers["schema"]].load_view().render_statistics(name, numbers))
