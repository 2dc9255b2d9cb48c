"""Writes `anchor_mrc-1/`, a small dataset of schema anchor_mrc/1 that later releases must still read: `python
make_anchor_mrc_1.py`. The texts are made up.

The script always writes the same bytes. A new version of the schema gets a script and a folder of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from schemas.anchor_mrc import ARROW_SCHEMA, MASK_TOKEN, AnchorCounts, AnchorMrcExample, ArticleRef
from schemas.card import dataset_card
from schemas.manifest import FILE_NAME, InputFile, Manifest, ShardEntry
from schemas.rejects import Reject
from schemas.shards import shard_name, write_shard
from schemas.spans import CharSpan

# Language, entity, query with {} for each mask, contexts with their answers in [brackets] (or none). They cover
# combining marks, right-to-left text, languages without spaces, letters outside the Basic Multilingual Plane before an
# answer, several answers, several masks, a title with a parenthetical, and a `[MASK]` that is the article's own.
ENTITIES = [
    ("ar", "القاهرة", "{} هي عاصمة مصر.", ("سافرت آنا إلى [القاهرة] أمس.", "البحر مالح.")),
    ("en", "Cloze (test)", "A {} has gaps; some write [MASK] for them.", ("Teachers like a [cloze].",)),
    ("en", "Hanoi", "{} lies on a river. Is {} big?", ("To [Hanoi], 😀, or not to [Hanoi]?", "The sea is salty.")),
    ("hi", "मुंबई", "{} समुद्र के किनारे है।", ("रवि का जन्म [मुंबई] में हुआ था।", "पानी ठंडा है।")),
    ("sw", "Nairobi", "{} ni mji mkuu wa Kenya.", ("Juma anapenda [Nairobi].", "Bahari ina chumvi.")),
    ("th", "กรุงเทพฯ", "{}เป็นเมืองหลวง", ("สมชายทำงานที่[กรุงเทพฯ]ทุกวัน", "ทะเลเค็ม")),
    ("tr", "İstanbul", "{} iki kıtadadır.", ("Ayşe [İstanbul]'a geldi.", "Deniz tuzludur.")),
    ("vi", "Hà Nội", "{} là thủ đô của Việt Nam.", ("😀 Anna đến [Hà Nội] năm 1999.", "Biển thì mặn.")),
    ("zh", "北京", "{}是中国的首都。", ("她爱[北京],也住在[北京]。", "海水是咸的。")),
]  # fmt: skip


def examples() -> list[AnchorMrcExample]:
    rows: list[AnchorMrcExample] = []
    for number, (lang, entity, query, contexts) in enumerate(ENTITIES, start=100):
        for context in contexts:
            rows.append(parse(len(rows) + 1, lang, ArticleRef(number, number * 10, entity), query, context))
    return rows


def parse(number: int, lang: str, definition: ArticleRef, query: str, context: str) -> AnchorMrcExample:
    """`{} is a town.`, `Anna left [Hanoi].` → the example."""
    query_text, masks = _unmark(query.replace("{}", f"⟦{MASK_TOKEN}⟧"), r"⟦([^⟧]*)⟧")
    context_text, answers = _unmark(context, r"\[([^]]*)\]")
    words_before = len(context_text[: answers[0].start].split()) if answers else number % 2
    return AnchorMrcExample(
        id=f"{number:020x}",
        lang=lang,
        entity=definition.title,
        query_text=query_text,
        query_mask_spans=masks,
        context_text=context_text,
        answers=answers,
        answerable=bool(answers),
        anchor_text=answers[0].of(context_text) if answers else None,
        words_before_drawn=words_before + 100 * (number % 2),
        words_before_anchor=words_before,
        definition_article=definition,
        mention_article=ArticleRef(1000 + number, 10000 + number, f"Golden {number}"),
    )


def _unmark(text: str, pattern: str) -> tuple[str, tuple[CharSpan, ...]]:
    plain, end = "", 0
    spans = []
    for match in re.finditer(pattern, text):
        plain += text[end : match.start()]
        spans.append(CharSpan(len(plain), len(plain) + len(match[1])))
        plain, end = plain + match[1], match.end()
    return plain + text[end:], tuple(spans)


def counts_of(rows: list[AnchorMrcExample]) -> dict[str, AnchorCounts]:
    """Counts two pages and two links for each example, and one reject of every unit for each language."""
    counts = {}
    for lang in sorted({row.lang for row in rows}):
        own = [row for row in rows if row.lang == lang]
        answerable = sum(row.answerable for row in own)
        counts[lang] = AnchorCounts(
            pages_read=2 * len(own) + 1,
            articles=2 * len(own),
            page_rejects={"bad_page": 1},
            links_found=answerable + 2,
            mentions=answerable + 1,
            link_rejects={"red_link": 1},
            links_saved_by={"first_letter": 1},
            answerable=answerable,
            mention_rejects={"rare_entity": 1},
            contexts_drawn=len(own) - answerable + 1,
            unanswerable=len(own) - answerable,
            context_rejects={"mentions_entity": 1},
            entities=len({row.entity for row in own}),
        )
    return counts


def write(folder: Path, rows: list[AnchorMrcExample] | None = None, shards: int = 2) -> Manifest:
    """Writes a dataset folder of these examples (or the golden ones), with one reject of each unit per language."""
    rows = examples() if rows is None else rows
    counts = counts_of(rows)
    rejects = [
        Reject(reason, unit, f"{100 + at:020x}", lang, "goldenwiki", 100 + at, "Hello.")
        for at, lang in enumerate(counts)
        for unit, reasons in counts[lang].rejects().items()
        for reason in reasons
    ]
    size = -(-len(rows) // shards)
    entries = [
        write_file(folder, f"data/{shard_name(at, shards)}", rows[at * size : (at + 1) * size]) for at in range(shards)
    ]
    manifest = Manifest(
        schema="anchor_mrc/1",
        shards=tuple(entries),
        rejects=(write_file(folder, f"rejects/{shard_name(0, 1)}", rejects),),
        counts=counts,
        config={"languages": list(counts), "seed": 0},
        versions={"polyspan": "golden"},
        inputs=(InputFile("goldenwiki", "make_anchor_mrc_1.py", None, None),),
    )
    (folder / "README.md").write_text(dataset_card(manifest), encoding="utf-8", newline="")
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8", newline="")
    return manifest


def write_file(folder: Path, file: str, rows: list[AnchorMrcExample] | list[Reject]) -> ShardEntry:
    if file.startswith("data/"):
        table = pa.Table.from_pylist([row.to_row() for row in rows], schema=ARROW_SCHEMA)
    else:
        names = Reject.ARROW_SCHEMA.names
        table = pa.Table.from_pylist(
            [{name: getattr(row, name) for name in names} for row in rows], schema=Reject.ARROW_SCHEMA
        )
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        return ShardEntry(file, *write_shard(stream, table, table.schema))


if __name__ == "__main__":
    write(Path(__file__).parent / "anchor_mrc-1")
