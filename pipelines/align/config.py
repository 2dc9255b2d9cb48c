"""The options of the commands of `polyspan-data align`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from pipelines.aligner import AlignerConfig
from pipelines.recipes import BitextSpecs
from pipelines.steps.bitext.filters import FilterConfig

LineFormat = Literal["|||", "tsv"]
Symmetrize = Literal["posterior", "intersect", "union", "grow-diag-final-and"]


@dataclass(frozen=True)
class AlignTrainConfig:
    """Learn a word aligner from parallel corpora: the one that `polyspan-data clism` would train on them."""

    bitext: BitextSpecs = ()
    pair: tuple[str, ...] = ()
    """Language pairs, source first, such as en-vi. One model is trained for each, one after another. With --tokenized
    they may be of any languages: en-sl, eng_Latn-slv_Latn."""
    model: str = ""
    """The model file to write; {pair} stands for the language pair."""
    input: str = ""
    """Instead of --bitext: a file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input."""
    format: LineFormat = "|||"
    """What parts the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    prior: str = ""
    """A model file that `align train` wrote from other text: its words and counts (--aligner.prior-weight) are kept.
    {pair} stands for the language pair."""
    tokenized: bool = False
    """White space separates the words already; otherwise the languages' tokenizers find them."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    seed: int = 0
    """Decides which pairs train the model where there are more than --aligner.training-pairs."""
    threads: int = 0
    """Threads that train at once; 0: as many as there are cores. The model is the same for any number."""
    overwrite: bool = False
    """Replace the model file if it is there."""


@dataclass(frozen=True)
class AlignApplyConfig:
    """Link the words of sentence pairs: a line `0-0 1-2` (source-target, counted from 0) for each line read."""

    model: str = ""
    """The model file that `align train` wrote."""
    input: str = "-"
    """A file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input."""
    format: LineFormat = "|||"
    """What parts the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    source: str = ""
    """Instead of --input: the source side of two line-aligned files (Moses) …"""
    target: str = ""
    """… and the target side."""
    pair: str = ""
    """The language pair, such as en-vi: its tokenizers find the words. Empty: the pair that the model was trained on,
    whose words are found as they were then."""
    tokenized: bool = False
    """White space separates the words already; the languages are any then."""
    copy: bool = False
    """Read the model into memory of this process instead of sharing the file's: it may be written over meanwhile. So
    is always read a file that another user owns or may write."""
    adapt: bool = False
    """Let the model learn from the input before it links it: fewer errors where it does not know the text's words.
    The input is read twice. Of more pairs than the model was to be trained on, it learns from a sample by hash."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds a threshold, or what Moses makes of both directions' links."""
    min_score: float = -1.0
    """The threshold of `posterior`; higher keeps fewer and surer links. Negative: the one that the model has."""
    scores: bool = False
    """Write each link's score: 0-0:0.9812, the mean of both directions' posterior probabilities."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    threads: int = 0
    """Threads that align at once; 0: as many as there are cores. The links are the same for any number."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file if it is there."""


@dataclass(frozen=True)
class AlignFileConfig:
    """Train on the lines of a file and link the words of the same lines, in one step: a line `0-0 1-2` (source-target,
    counted from 0) for each line read. The links are those of `align train` and `align apply` with the same --pair."""

    input: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A file with both sides on a line, plain, .gz, .bz2, .xz or .zst; - is the standard input, of which a copy is kept
    in the folder for temporary files meanwhile."""
    format: LineFormat = "|||"
    """What parts the sides on a line: `source ||| target`, or a tab between the first two columns."""
    pair: str = ""
    """The language pair, such as en-vi: its tokenizers find the words. Empty: white space separates them already."""
    tokenized: bool = False
    """White space separates the words already, although --pair is given; the languages are any then."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds --aligner.min-score, or what Moses makes of both directions'
    links."""
    scores: bool = False
    """Write each link's score: 0-0:0.9812, the mean of both directions' posterior probabilities."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    model: str = ""
    """Keep the trained model in this file, for `align apply`."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    """Which lines train; all are linked."""
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    threads: int = 0
    """Threads that work at once; 0: as many as there are cores. The links are the same for any number."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file, and the model's, if they are there."""


LinksConfig = AlignApplyConfig | AlignFileConfig


@dataclass(frozen=True)
class AlignScoreConfig:
    """Compare links with gold ones: alignment error rate, precision and recall (Och and Ney 2003)."""

    gold: str = ""
    """Gold links: a line `0-0 1?2` for each sentence pair, `?` for possible ones; or, a link a line and counted from
    1, the NAACL form `SENTENCE SOURCE TARGET [S|P]`."""
    links: str = ""
    """The links to judge, as `align apply` writes them."""
    one_based: bool = False
    """The gold links are counted from 1, although they are not in the NAACL form, which always is."""
    one_based_links: bool = False
    """The links to judge are counted from 1."""
