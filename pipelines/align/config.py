"""Defines the options of the commands of `polyspan-data align`."""

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
    """Train a word aligner on parallel corpora: the same one that `polyspan-data clism` would train on them."""

    bitext: BitextSpecs = ()
    pair: tuple[str, ...] = ()
    """Language pairs, source first, such as en-vi; one model is trained for each, one after another. With --tokenized
    they may be of any languages: en-sl, eng_Latn-slv_Latn."""
    model: str = ""
    """The model file to write. {pair} is replaced by the language pair."""
    input: str = ""
    """Instead of --bitext: a file with both sides on each line, plain, .gz, .bz2, .xz or .zst; - is standard input."""
    format: LineFormat = "|||"
    """What separates the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    prior: str = ""
    """A model that `align train` trained on other text. Its words are kept, and its counts, times
    --aligner.prior-weight, are added to the new ones. {pair} is replaced by the language pair."""
    tokenized: bool = False
    """Take words as white space separates them, instead of calling the languages' tokenizers."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    seed: int = 0
    """Seed of the sample that trains the model if there are more sentence pairs than --aligner.training-pairs."""
    threads: int = 0
    """Number of training threads; 0 means one per core. It does not change the model."""
    overwrite: bool = False
    """Replace the model file if it exists."""


@dataclass(frozen=True)
class AlignApplyConfig:
    """Link the words of sentence pairs: writes a line `0-0 1-2` (source-target, counted from 0) for each input line."""

    model: str = ""
    """The model file, as written by `align train`."""
    input: str = "-"
    """A file with both sides on each line, plain, .gz, .bz2, .xz or .zst; - is the standard input."""
    format: LineFormat = "|||"
    """What separates the sides on a line of --input: `source ||| target`, or a tab between the first two columns."""
    source: str = ""
    """Instead of --input: the source side of two line-aligned files (Moses). Needs --target."""
    target: str = ""
    """The file that translates --source line by line."""
    pair: str = ""
    """The language pair, such as en-vi, whose tokenizers find the words. Empty: the pair that the model was trained on,
    with words found as in training."""
    tokenized: bool = False
    """Take words as white space separates them, instead of calling tokenizers. Any languages are accepted then."""
    copy: bool = False
    """Read the model into this process's own memory instead of mapping the file, so that the file may be overwritten
    meanwhile. A file that another user owns or may write is always copied."""
    adapt: bool = False
    """Train the model further on the input before linking it: fewer errors where the text has words that the model does
    not know. The input is read twice. If it has more pairs than --aligner.training-pairs was in training, a sample
    drawn by hash is used."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds --min-score, or a Moses heuristic on both directions' links."""
    min_score: float = -1.0
    """The threshold of --symmetrize posterior; higher keeps fewer and surer links. Negative: the model's own one."""
    scores: bool = False
    """Write each link's score, the mean of both directions' posterior probabilities: 0-0:0.9812."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    threads: int = 0
    """Number of aligning threads; 0 means one per core. It does not change the links."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file if it exists."""


@dataclass(frozen=True)
class AlignFileConfig:
    """Train on the lines of a file and link the words of the same lines, in one step: writes a line `0-0 1-2`
    (source-target, counted from 0) for each input line. `align train` and then `align apply` with the same --pair give
    the same links."""

    input: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A file with both sides on each line, plain, .gz, .bz2, .xz or .zst. - is the standard input, which is copied to
    the folder for temporary files while the command runs."""
    format: LineFormat = "|||"
    """What separates the sides on a line: `source ||| target`, or a tab between the first two columns."""
    pair: str = ""
    """The language pair, such as en-vi, whose tokenizers find the words. Empty: words as white space separates them."""
    tokenized: bool = False
    """Take words as white space separates them although --pair is given. Any languages are accepted then."""
    symmetrize: Symmetrize = "posterior"
    """Which links are kept: those whose score exceeds --aligner.min-score, or a Moses heuristic on both directions'
    links."""
    scores: bool = False
    """Write each link's score, the mean of both directions' posterior probabilities: 0-0:0.9812."""
    words: bool = False
    """Write the words before their links: source words ||| target words ||| 0-0 1-2."""
    model: str = ""
    """Save the trained model to this file, for `align apply`."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    """Which lines train the model. All lines are linked."""
    aligner: AlignerConfig = field(default_factory=AlignerConfig)
    threads: int = 0
    """Number of threads; 0 means one per core. It does not change the links."""
    output: str = "-"
    """The file to write; - is the standard output."""
    overwrite: bool = False
    """Replace the output file and the model file if they exist."""


LinksConfig = AlignApplyConfig | AlignFileConfig


@dataclass(frozen=True)
class AlignScoreConfig:
    """Compare links with gold ones: alignment error rate, precision and recall (Och and Ney 2003)."""

    gold: str = ""
    """The file of gold links. Either a line `0-0 1?2` per sentence pair, where `?` marks a possible link, or the NAACL
    format: a line `SENTENCE SOURCE TARGET [S|P]` per link, counted from 1."""
    links: str = ""
    """The file of links to evaluate, as `align apply` writes it."""
    one_based: bool = False
    """The gold links count words from 1. NAACL files always do; this option is for the other format."""
    one_based_links: bool = False
    """The links to evaluate count words from 1."""
