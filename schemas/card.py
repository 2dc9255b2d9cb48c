"""The dataset card, `README.md`: what the Hugging Face hub and a person want to know, made from the manifest alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.counts import AnchorCounts, CandidateCounts, PairCounts, RecordCounts
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

_WHAT_CLISM = """\
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

_WHAT_ANCHOR_MRC = """\
Each row is a query and a context, both from Wikipedia. The query is the beginning of the article on an entity, with
`[MASK]` for the entity's names; the context is cut from another article. If that article links to the entity there, the
row is answerable, and its answers are the spans of the context that hold the link's text. If it does not mention the
entity, the row has no answer. For example:

| field | answerable | unanswerable |
| --- | --- | --- |
| `entity` | Hanoi | Hanoi |
| `query_text` | [MASK] is the capital of Vietnam. | [MASK] is the capital of Vietnam. |
| `query_mask_spans` | `start_char` 0, `end_char` 6 | `start_char` 0, `end_char` 6 |
| `context_text` | Anna came to Hanoi in 1999. | The sea is salty. |
| `answers` | `start_char` 13, `end_char` 18 (Hanoi) | none |
| `anchor_text` | Hanoi | null |

All offsets count Unicode code points and are half-open: `context_text[start_char:end_char]` is the answer.\
"""

_SOURCE_ANCHOR_MRC = """\
The texts are from Wikipedia, whose authors license them under
[CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/), and so is this dataset. Each row names the articles
that it quotes, `definition_article` in the query and `mention_article` in the context, by title, page id and revision
id: there Wikipedia lists their authors. The texts are excerpts without markup; in queries, `[MASK]` replaces the
entity's names.\
"""

_WHAT_MRC = """\
Each row is a question and a context that may answer it. For example:

| field | |
| --- | --- |
| `query` | Who won? |
| `context` | The Broncos won. |
| `answers` | `start_char` 4, `end_char` 11 (Broncos) |
| `answer_texts` | Broncos |
| `answerable` | true |

All offsets count Unicode code points and are half-open: `context[start_char:end_char]` is the answer. `answer_texts`
are the answers as published, which official scorers compare with.\
"""

_WHAT_MRC_2 = f"""\
{_WHAT_MRC}

`query_lang` is the language of the query where it is another than that of the context, `lang`; otherwise null.
`source_id` is the published id where several records have it, so that `id` is another; otherwise null.\
"""

_WHAT_TAGGING = """\
Each row is a sentence, where its words stand in it, and a tag for each word in IOB2; no tags where none are known. For
example:

| field | |
| --- | --- |
| `text` | In Hanoi. |
| `tokens` | `start_char` 0, `end_char` 2 (In); 3, 8 (Hanoi); 8, 9 (.) |
| `tags` | O, B-LOC, O |

All offsets count Unicode code points and are half-open: `text[start_char:end_char]` is the word.\
"""

_WHAT_PAIR = """\
Each row is two sentences and how they relate; the label is null where none is known. For example:

| field | |
| --- | --- |
| `sentence1` | Anna lives in Hanoi. |
| `sentence2` | Hanoi is where Anna lives. |
| `label` | 1 |\
"""

_WHAT_CANDIDATES = """\
Each row holds the spans that a fine-tuned model finds most probable as the answer to one question, best first. The
question and its context stand in the records that the model was asked, under the same id. For example, of the context
"The Broncos won.", where the answer is "Broncos":

| field | |
| --- | --- |
| `candidates` | `start_char` 0, `end_char` 11, `score` 0.5 (The Broncos); 4, 11, 0.25 (Broncos) |
| `gold_rank` | 2 |

All offsets count Unicode code points and are half-open: `context[start_char:end_char]` is the candidate. `score` is its
probability; `gold_rank` counts from 1, and is null where no candidate is a true answer.\
"""

_SOURCE_RECORDS = """\
The records are those of the files named below, under the license of those files.\
"""

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


class Kind(NamedTuple):
    """What the card of a schema's datasets says apart from numbers."""

    title: str
    what: str
    source: str | None  # where the texts are from, and whom to name
    license: str  # one of the hub's identifiers; "other" and "unknown" are among them
    tasks: tuple[str, ...]  # of the hub's list
    tags: tuple[str, ...]
    langs: str  # what the counts are of
    numbers: Callable[[Any], dict[str, str]]  # counts → head of a column → cell
    units: Mapping[str, str]  # unit of rejects → how the card calls it, where not the same
    answers: str  # Python that prints the answers of `row`


def _anchor_numbers(counts: AnchorCounts) -> dict[str, str]:
    """Entities and examples first, as mPMR's table 4 has them."""
    return {
        "entities": f"{counts.entities:,}",
        "examples": f"{counts.examples:,}",
        "answerable": f"{counts.answerable:,}",
        "unanswerable": f"{counts.unanswerable:,}",
        "articles read": f"{counts.articles:,}",
    }


def _pair_numbers(counts: PairCounts) -> dict[str, str]:
    return {
        "pairs read": f"{counts.pairs_read:,}",
        "examples": f"{counts.examples:,}",
        "kept": share(counts.examples, counts.pairs_read),
        "questions": f"{counts.questions:,}",
    }


def _record_numbers(counts: RecordCounts) -> dict[str, str]:
    return {
        "records read": f"{counts.records_read:,}",
        "records": f"{counts.examples:,}",
        "kept": share(counts.examples, counts.records_read),
    }


def _candidate_numbers(counts: CandidateCounts) -> dict[str, str]:
    recalls = {f"recall@{k}": share(hits, counts.examples) for k, hits in counts.hits.items()}
    return {"questions": f"{counts.examples:,}", **recalls}


KINDS = {
    "anchor_mrc/1": Kind(
        title="Anchor-MRC examples",
        what=_WHAT_ANCHOR_MRC,
        source=_SOURCE_ANCHOR_MRC,
        license="cc-by-sa-4.0",
        tasks=("question-answering",),
        tags=("machine-reading-comprehension", "span-extraction", "wikipedia"),
        langs="language",
        numbers=_anchor_numbers,
        units={},
        answers='for answer in row["answers"]:\n'
        '    print(row["context_text"][answer["start_char"] : answer["end_char"]])',
    ),
    "candidates/1": Kind(
        title="Candidate answers",
        what=_WHAT_CANDIDATES,
        source=None,
        license="unknown",
        tasks=("question-answering",),
        tags=("span-extraction",),
        langs="language",
        numbers=_candidate_numbers,
        units={"record": "question"},
        answers='for candidate in row["candidates"]:\n    print(candidate["score"])',
    ),
    "clism/1": Kind(
        title="CLISM examples",
        what=_WHAT_CLISM,
        source=None,
        license="unknown",
        tasks=("question-answering", "token-classification"),
        tags=("cross-lingual", "span-extraction"),
        langs="pair",
        numbers=_pair_numbers,
        units={"pair": "sentence pair"},
        answers='for question in row["questions"]:\n'
        '    print(row["target_text"][question["answer_start_char"] : question["answer_end_char"]])',
    ),
    "mrc/1": Kind(
        title="Questions",
        what=_WHAT_MRC,
        source=_SOURCE_RECORDS,
        license="unknown",
        tasks=("question-answering",),
        tags=("machine-reading-comprehension",),
        langs="language",
        numbers=_record_numbers,
        units={},
        answers='for answer in row["answers"]:\n    print(row["context"][answer["start_char"] : answer["end_char"]])',
    ),
    "pair/1": Kind(
        title="Sentence pairs",
        what=_WHAT_PAIR,
        source=_SOURCE_RECORDS,
        license="unknown",
        tasks=("text-classification",),
        tags=("sentence-pairs",),
        langs="language",
        numbers=_record_numbers,
        units={},
        answers='print(row["sentence1"], row["sentence2"], row["label"])',
    ),
    "tagging/1": Kind(
        title="Tagged sentences",
        what=_WHAT_TAGGING,
        source=_SOURCE_RECORDS,
        license="unknown",
        tasks=("token-classification",),
        tags=("named-entity-recognition",),
        langs="language",
        numbers=_record_numbers,
        units={},
        answers='for token, tag in zip(row["tokens"], row["tags"]):\n'
        '    print(row["text"][token["start_char"] : token["end_char"]], tag)',
    ),
}

KINDS["mrc/2"] = KINDS["mrc/1"]._replace(what=_WHAT_MRC_2)


def dataset_card(manifest: Manifest, license: str | None = None) -> str:
    """Markdown with front matter. `license` is one of the hub's identifiers; None is what texts of the kind have."""
    kind = KINDS[manifest.schema]
    shard = manifest.shards[0].file if manifest.shards else "data/…"
    sections = {
        f"{kind.title}: {', '.join(sorted(manifest.counts)) or 'none'}": kind.what,
        "Source and license": kind.source,
        "How many": _how_many(manifest, kind),
        "What was left out": _left_out(manifest, kind),
        "Loading": _LOAD.format(shard=shard, answers=kind.answers),
        "How it was made": _how_made(manifest),
    }
    text = "\n\n".join(
        f"{'#' if position == 0 else '##'} {title}\n\n{body}"
        for position, (title, body) in enumerate(sections.items())
        if body is not None
    )
    return f"---\n{_front_matter(manifest, kind, license or kind.license)}---\n\n{text}\n"


def _front_matter(manifest: Manifest, kind: Kind, license: str) -> str:
    examples = manifest.totals.examples
    # The hub knows languages by their primary subtag: in "en-es-419" and "zh-Hant-en", the two or three small letters.
    subtags = {subtag for langs in manifest.counts for subtag in langs.split("-")}
    languages = sorted(subtag for subtag in subtags if subtag.islower() and len(subtag) in (2, 3))
    # JSON is YAML: quoted, so that Norwegian's "no" does not become a truth value.
    values = {
        "language": languages,
        "license": license,
        "task_categories": kind.tasks,
        "size_categories": [next((name for limit, name in _SIZES if examples < limit), "n>1B")],
        "tags": ["polyspan", manifest.schema.partition("/")[0], *kind.tags],
        "configs": [{"config_name": "default", "data_files": "data/*.arrow"}],
    }
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _how_many(manifest: Manifest, kind: Kind) -> str:
    rows = [(f"`{langs}`", *kind.numbers(counts).values()) for langs, counts in sorted(manifest.counts.items())]
    numbers = kind.numbers(manifest.totals)
    if len(rows) > 1:
        rows.append(("all", *numbers.values()))
    return _table((kind.langs, *numbers), rows)


def _left_out(manifest: Manifest, kind: Kind) -> str:
    totals = manifest.totals
    rows = [
        (kind.units.get(unit, unit), f"`{reason}`", f"{count:,}", share(count, getattr(totals, found)))
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


def by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, then by name; what was never counted left out."""
    return sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
