"""Named, complete configurations. A variant is `replace` on another; nothing is configured anywhere else.

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
from pipelines.steps.ner.taggers import TaggerConfig

BITEXT_HELP = (
    f"The parallel corpora, each one of: {example_help()}. Files may be compressed ({' '.join(COMPRESSIONS)}) and "
    "named by globs. {pair}, {source} and {target} are replaced by the language pair and its two languages; "
    "en-vi=SPEC is read for en-vi only."
)
BitextSpecs = Annotated[tuple[str, ...], tyro.conf.arg(help=BITEXT_HELP)]


@dataclass(frozen=True)
class ClismConfig:
    """Parallel corpora → CLISM examples: one dataset folder, for one or many language pairs.

    Every field but the last three decides the dataset's bytes and is written to its manifest.
    """

    bitext: BitextSpecs = ()
    pair: tuple[str, ...] = ()
    """Language pairs, such as en-vi en-ar: mentions are masked in the first and answered in the second language."""
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 0
    """Decides which pairs train the aligner where they are too many, and which rejects are kept for reading."""
    chunk_pairs: int = 2000
    """Sentence pairs per chunk: the unit of work, of batching and of resuming."""
    rows_per_shard: int = 100_000
    """About how many examples one Arrow shard holds."""
    rejects_per_reason: int = 50
    """How many rejects of each reason are kept for reading; their counts are always exact."""
    output: str = ""
    """The dataset folder to write: new, empty, or one that the same command has begun."""
    overwrite: bool = False
    """Replace another dataset in the output folder. It stays whole until the new one is complete."""
    workers: int = 1
    """Local worker processes; 0 for one a core. Other runners have options of their own, after `--`."""


CLISM = ClismConfig()

CLISM_PAPER = replace(
    CLISM,
    filters=FilterConfig(max_length_ratio=0, drop_identical=False, drop_duplicates=False),
    masking=MaskingConfig(strictness="any", min_score=0.0),
)
"""The paper's literal reading: every linked mention is asked for, but for those that appendix B filters out (stop words
only; longer than 10); of sentence pairs only those over the length of 4.2 are refused."""

CLISM_RECIPES = {"clism": CLISM, "clism_paper": CLISM_PAPER}


@dataclass(frozen=True)
class AnchorMrcConfig:
    """Wikipedia dumps → anchor-MRC triplets: one dataset folder, for one or many languages.

    Every field but the last five decides the dataset's bytes and is written to its manifest.
    """

    dump: tuple[str, ...] = ()
    """The dumps: …-pages-articles.xml, plain, .bz2 (also multistream), .gz, .xz or .zst; globs; {lang} stands for the
    language; sw=FILE is read for sw only."""
    extracted: tuple[str, ...] = ()
    """Instead of dumps, or of some of the languages': files that WikiExtractor has made with --json --links. They lack
    redirects, list lines and bold names; a dump gives more."""
    lang: tuple[str, ...] = ()
    """The Wikipedias' languages, such as sw vi."""
    triplets: TripletConfig = field(default_factory=TripletConfig)
    any_siteinfo: bool = False
    """Read dumps whose <siteinfo> is another wiki's, with the language's own names of namespaces."""
    seed: int = 0
    """Decides which mentions are sampled, where they stand in their contexts and which contexts answer nothing."""
    rows_per_shard: int = 20_000
    """About how many examples one Arrow shard holds."""
    rejects_per_reason: int = 50
    """How many rejects of each reason are kept for reading; their counts are always exact."""
    range_bytes: int = 8_000_000
    """Bytes of a dump file, as stored, that are read at once: the unit of work and of resuming."""
    tolerate_damage: bool = False
    """End with exit code 0 although parts of a dump could not be read; what could be read is written either way."""
    output: str = ""
    """The dataset folder to write: new, empty, or one that the same command has begun. With {lang} in it, each language
    has a folder of its own."""
    overwrite: bool = False
    """Replace another dataset in the output folder. It stays whole until the new one is complete."""
    workers: int = 1
    """Local worker processes; 0 for one a core. Other runners have options of their own, after `--`."""


ANCHOR_MRC = AnchorMrcConfig()

ANCHOR_MRC_FILLED = replace(ANCHOR_MRC, triplets=TripletConfig(fill_context=True))
"""Contexts of full length wherever the article has so many words."""

ANCHOR_MRC_PAPER = ANCHOR_MRC
"""The paper's literal reading, which is the default's: mPMR, 2.2 and A.1."""

ANCHOR_MRC_RECIPES = {
    "anchor_mrc": ANCHOR_MRC,
    "anchor_mrc_paper": ANCHOR_MRC_PAPER,
    "anchor_mrc_filled": ANCHOR_MRC_FILLED,
}
