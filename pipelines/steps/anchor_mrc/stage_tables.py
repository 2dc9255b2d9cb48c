"""The stages of the anchor-MRC job: what each keeps in the work folder, and the Arrow schema of its tables.

An entity is an article that is neither a disambiguation page nor a list; it is known by its number in the title table.
A chunk is a run of pages of one file, a part is a run of entities. A stage's file holds one table, or one table for
each part or chunk that reads it ("cut").

    stage     one file per        one row is                              made by            read by
    files     input file          (no table: name, size, checksum)        digest_file        write_manifest
    pages     chunk               an article or redirect                  read_chunk         titles, linked, texts
    titles    language            (a title table of its own format)       build_title_table  linked, texts
    linked    chunk               the articles that one page links to     resolve_chunk      texts
    defined   chunk, cut by part  an entity's own article                 resolve_chunk      sampled
    mentions  chunk, cut by part  a mention that may be sampled           resolve_chunk      sampled
    sampled   part                a sampled mention and its definition    sample_part        wanted
    wanted    part, cut by chunk  a text that an example needs            want_texts         texts
    texts     chunk, cut by part  that text: a query or a context         cut_chunk          examples
    examples  part                an example (`schemas.anchor_mrc`)       make_examples      write_examples

The functions are those of `pipelines/anchor_mrc_transforms.py` and `pipelines/runtime/dataset_sink.py`. The summaries
of `pages`, `linked`, `sampled` and `examples` hold ledgers; the manifest's counts are their sum.
"""

from __future__ import annotations

import pyarrow as pa

PAGES_STAGE = "pages"
TITLES_STAGE = "titles"
LINKED_STAGE = "linked"
DEFINED_STAGE = "defined"
MENTIONS_STAGE = "mentions"
SAMPLED_STAGE = "sampled"
WANTED_STAGE = "wanted"
TEXTS_STAGE = "texts"
EXAMPLES_STAGE = "examples"

DEFINITION, ANSWERABLE, UNANSWERABLE = 0, 1, 2  # the kinds of wanted texts

# PAGES_SCHEMA is in `pipelines/steps/wikipedia/pages.py`.

LINKED_SCHEMA = pa.schema([("articles", pa.list_(pa.int32()))])  # numbers in the title table, ascending

DEFINED_SCHEMA = pa.schema(
    [
        ("entity", pa.int64()),
        ("row", pa.int32()),  # of the page in its chunk
        ("page_id", pa.int64()),
        ("title", pa.string()),
    ]
)

MENTIONS_SCHEMA = pa.schema(
    [
        ("entity", pa.int64()),
        ("count", pa.int64()),  # on an entity's first row, how often the chunk mentions it; 0 on its other rows
        ("sample_hash", pa.uint64()),  # the mentions with the lowest hashes are sampled
        ("row", pa.int32()),  # of the page in its chunk
        ("anchor", pa.int32()),  # index of the anchor in its page
        ("page_id", pa.int64()),
        ("anchor_text", pa.string()),
    ]
)

SAMPLED_SCHEMA = pa.schema(
    [
        ("entity", pa.int64()),
        ("ordinal", pa.int32()),  # 0, 1, 2 … within the entity's mentions
        ("title", pa.string()),  # of the definition article
        ("definition_page_id", pa.int64()),
        ("definition_chunk", pa.int32()),
        ("definition_row", pa.int32()),
        ("chunk", pa.int32()),  # chunk, row, anchor, page_id and anchor_text: of the mention
        ("row", pa.int32()),
        ("anchor", pa.int32()),
        ("page_id", pa.int64()),
        ("anchor_text", pa.string()),
    ]
)

WANTED_SCHEMA = pa.schema(
    [
        ("entity", pa.int64()),
        ("kind", pa.int8()),  # DEFINITION, ANSWERABLE or UNANSWERABLE
        ("ordinal", pa.int32()),  # 0, 1, 2 … within the entity's texts of this kind
        ("row", pa.int32()),  # of the page in its chunk
        ("anchor", pa.int32()),  # index of the anchor in its page; 0 for a definition
        ("position_hash", pa.uint64()),  # decides how many of the context's words precede the anchor
        ("names", pa.list_(pa.string())),  # UNANSWERABLE: names of the entity, which the article must not contain
    ]
)

TEXTS_SCHEMA = pa.schema(
    [
        ("entity", pa.int64()),
        ("kind", pa.int8()),  # kind and ordinal: those of the wanted text
        ("ordinal", pa.int32()),
        ("reject", pa.string()),  # why an unanswerable context cannot be used; null: it can
        ("text", pa.string()),
        ("answers", pa.list_(pa.int32())),  # start, end, start, end …
        ("anchor_text", pa.string()),
        ("words_before_drawn", pa.int32()),
        ("words_before", pa.int32()),
        ("page_id", pa.int64()),
        ("revision_id", pa.int64()),
        ("title", pa.string()),
        ("anchor", pa.int32()),
        ("names", pa.list_(pa.string())),  # DEFINITION: the entity's names
    ]
)
