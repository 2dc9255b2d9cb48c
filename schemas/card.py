"""The dataset card, `README.md`: what the Hugging Face hub and a person want to know, made from the manifest alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

from schemas.counts import PairCounts
from schemas.manifest import Manifest

_SIZES = (  # the hub's names
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
)

_WHAT = """\
Each row is a sentence and its translation. Some mentions of the source sentence are replaced by `[QUE]`; the answer to
a `[QUE]` is the span of the translation that says the same. For example:

| field | |
| --- | --- |
| `source_text` | Anna lives in Hanoi. |
| `masked_source_text` | [QUE] lives in [QUE]. |
| `target_text` | Anna sống ở Hà Nội. |
| `questions` | one per `[QUE]`, in order: `answer_start_char` 0, `answer_end_char` 4 (Anna); 12, 18 (Hà Nội) |

All offsets count Unicode code points and are half-open: `target_text[answer_start_char:answer_end_char]` is the
answer.\
"""

_LOAD = """\
```python
import pandas, datasets

frame = pandas.read_feather("{shard}")
examples = datasets.load_dataset("arrow", data_files="data/*.arrow", split="train")

row = examples[0]
for question in row["questions"]:
    print(row["target_text"][question["answer_start_char"] : question["answer_end_char"]])
```

`polyspan-inspect show .` prints examples with their answers marked, and `polyspan-inspect verify .` checks every row.\
"""


def dataset_card(manifest: Manifest, license: str = "unknown") -> str:
    """Markdown with front matter. `license` is one of the hub's identifiers; "other" and "unknown" are among them."""
    pairs = sorted(manifest.counts)
    sections = {
        f"CLISM examples: {', '.join(pairs) or 'none'}": _WHAT,
        "How many": _how_many(manifest),
        "What was left out": _left_out(manifest.totals),
        "Loading": _LOAD.format(shard=manifest.shards[0].file if manifest.shards else "data/…"),
        "How it was made": _how_made(manifest),
    }
    text = "\n\n".join(
        f"{'#' if position == 0 else '##'} {title}\n\n{body}" for position, (title, body) in enumerate(sections.items())
    )
    return f"---\n{_front_matter(manifest, license)}---\n\n{text}\n"


def _front_matter(manifest: Manifest, license: str) -> str:
    examples = manifest.totals.examples
    # The hub knows languages by their primary subtag: in "en-es-419" and "zh-Hant-en", the two or three small letters.
    subtags = {subtag for pair in manifest.counts for subtag in pair.split("-")}
    languages = sorted(subtag for subtag in subtags if subtag.islower() and len(subtag) in (2, 3))
    # JSON is YAML: quoted, so that Norwegian's "no" does not become a truth value.
    values = {
        "language": languages,
        "license": license,
        "task_categories": ["question-answering", "token-classification"],
        "size_categories": [next((name for limit, name in _SIZES if examples < limit), "n>1B")],
        "tags": ["polyspan", manifest.schema.partition("/")[0], "cross-lingual", "span-extraction"],
        "configs": [{"config_name": "default", "data_files": "data/*.arrow"}],
    }
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _how_many(manifest: Manifest) -> str:
    rows = [(f"`{pair}`", counts) for pair, counts in sorted(manifest.counts.items())]
    if len(rows) > 1:
        rows.append(("all", manifest.totals))
    return _table(
        ("pair", "pairs read", "examples", "kept", "questions"),
        [
            (name, f"{counts.pairs_read:,}", f"{counts.examples:,}", share(counts.examples, counts.pairs_read),
             f"{counts.questions:,}")
            for name, counts in rows
        ],
    )  # fmt: skip


def _left_out(totals: PairCounts) -> str:
    rows = [
        (unit, f"`{reason}`", f"{count:,}", share(count, found))
        for unit, rejects, found in (
            ("sentence pair", totals.pair_rejects, totals.pairs_read),
            ("mention", totals.mention_rejects, totals.mentions_found),
        )
        for reason, count in by_count(rejects)
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


def by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, then by name; what was never counted left out."""
    return sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
