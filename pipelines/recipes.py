"""Named, complete configurations of the jobs. A variant is made with `replace`; nothing is configured elsewhere.

docs/paper_settings.md has a row for every number and rule of the recipes that follow a paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro

from pipelines.aligner import AlignerConfig
from pipelines.steps.anchor_mrc.triplets import TripletConfig
from pipelines.steps.bitext.filters import FilterConfig
from pipelines.steps.bitext.formats import example_help
from pipelines.steps.clism.masking import MaskingConfig
from pipelines.steps.common.files import COMPRESSIONS
from pipelines.steps.ner.config import TaggerConfig

BITEXT_HELP = (
    f"The parallel corpora, each one of: {example_help()}. Files may be compressed ({' '.join(COMPRESSIONS)}) and "
    "named by globs. {pair}, {source} and {target} are replaced by the language pair and its two languages; "
    "en-vi=SPEC is read for en-vi only."
)
BitextSpecs = Annotated[tuple[str, ...], tyro.conf.arg(help=BITEXT_HELP)]


@dataclass(frozen=True)
class ClismConfig:
    """Settings of the CLISM job, which makes one dataset folder of parallel corpora in one or many language pairs.

    Every field except the last three decides the dataset's bytes and is written to its manifest.
    """

    bitext: BitextSpecs = ()
    pair: tuple[str, ...] = ()
    """Language pairs, such as en-vi en-ar. Mentions are masked in the first language and answered in the second."""
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 0
    """Seed of two samples: the pairs that train the aligner if there are too many, and the rejects that are kept."""
    chunk_pairs: int = 2000
    """Number of sentence pairs in a chunk, the unit of work, of batching and of resuming."""
    rows_per_shard: int = 100_000
    """Approximate number of examples in one Arrow shard."""
    rejects_per_reason: int = 50
    """Number of rejects of each reason that are kept for reading. Their counts are always exact."""
    output: str = ""
    """The dataset folder to write: a new or empty one, or one that the same command has begun."""
    overwrite: bool = False
    """Replace another dataset in the output folder. It stays whole until the new one is complete."""
    workers: int = 1
    """Number of local worker processes; 0 means one per core. Other runners take their own options after `--`."""


CLISM = ClismConfig()

CLISM_PAPER = replace(
    CLISM,
    filters=FilterConfig(max_length_ratio=0, drop_identical=False, drop_duplicates=False),
    masking=MaskingConfig(strictness="any", min_score=0.0),
)
"""The paper read literally: every linked mention becomes a question unless appendix B filters it out (only stop words;
longer than 10), and sentence pairs are refused only for the length limit of section 4.2."""

CLISM_RECIPES = {"clism": CLISM, "clism_paper": CLISM_PAPER}


@dataclass(frozen=True)
class AnchorMrcConfig:
    """Settings of the anchor-MRC job, which makes one dataset folder of Wikipedia dumps in one or many languages.

    Every field except the last five decides the dataset's bytes and is written to its manifest.
    """

    dump: tuple[str, ...] = ()
    """The dumps: …-pages-articles.xml, plain, .bz2 (also multistream), .gz, .xz or .zst, also named by globs. {lang} is
    replaced by the language; sw=FILE is read for sw only."""
    extracted: tuple[str, ...] = ()
    """Files that WikiExtractor made with --json --links, to be read instead of a dump. They lack redirects, list lines
    and bold names, so a dump gives more examples."""
    lang: tuple[str, ...] = ()
    """The languages of the Wikipedias, such as sw vi."""
    triplets: TripletConfig = field(default_factory=TripletConfig)
    any_siteinfo: bool = False
    """Accept dumps whose <siteinfo> names another wiki, and use the language's own namespace names."""
    seed: int = 0
    """Seed that decides which mentions are sampled, their positions in the contexts, and which have no answer."""
    rows_per_shard: int = 20_000
    """Approximate number of examples in one Arrow shard."""
    rejects_per_reason: int = 50
    """Number of rejects of each reason that are kept for reading. Their counts are always exact."""
    range_bytes: int = 8_000_000
    """Number of bytes of a dump file, as stored, that are read at once: the unit of work and of resuming."""
    tolerate_damage: bool = False
    """Exit with code 0 even if parts of a dump could not be read. What could be read is written either way."""
    output: str = ""
    """The dataset folder to write: a new or empty one, or one that the same command has begun. With {lang} in it, each
    language gets its own folder."""
    overwrite: bool = False
    """Replace another dataset in the output folder. It stays whole until the new one is complete."""
    workers: int = 1
    """Number of local worker processes; 0 means one per core. Other runners take their own options after `--`."""


ANCHOR_MRC = AnchorMrcConfig()

ANCHOR_MRC_FILLED = replace(ANCHOR_MRC, triplets=TripletConfig(fill_context=True))
"""Contexts have their full length wherever the article has enough words."""

ANCHOR_MRC_PAPER = ANCHOR_MRC
"""The paper read literally (mPMR, 2.2 and A.1), which is the default."""

ANCHOR_MRC_RECIPES = {
    "anchor_mrc": ANCHOR_MRC,
    "anchor_mrc_paper": ANCHOR_MRC_PAPER,
    "anchor_mrc_filled": ANCHOR_MRC_FILLED,
}
