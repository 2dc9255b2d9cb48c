"""The schemas that this release of Polyspan reads and writes. To add one, add a line here."""

from __future__ import annotations

import pyarrow as pa

from schemas import anchor_mrc, candidates, clism, mrc, soft_labels, translations
from schemas.rejects import Reject
from schemas.spec import SchemaSpec

SCHEMAS: dict[str, SchemaSpec] = {
    "anchor_mrc/1": anchor_mrc.SPEC,
    "candidates/1": candidates.SPEC,
    "clism/1": clism.SPEC,
    "mrc/1": mrc.MRC_1_SPEC,
    "mrc/2": mrc.MRC_2_SPEC,
    "pair/1": mrc.PAIR_SPEC,
    "soft_labels/1": soft_labels.SPEC,
    "tagging/1": mrc.TAGGING_SPEC,
    "translations/1": translations.SPEC,
}

REJECTS = "rejects/1"
"""The schema of the files in `rejects/`, which every dataset has beside its examples."""


def arrow_schema(name: str) -> pa.Schema:
    """Returns the Arrow schema of a shard, of examples or of rejects. Raises `KeyError` if there is none."""
    return Reject.ARROW_SCHEMA if name == REJECTS else SCHEMAS[name].arrow
