"""Word alignment: finds which words of a sentence correspond to which words of its translation.

`train` learns a model from sentence pairs alone; `AlignmentModel.align_batch` links the words of any pair with it:

    normalise words, number them (words)
      → p(target word | source word) and the reverse, from counts
      → posteriors of an HMM in each direction, reweighted by fertility
      → their product: counts for the next pass (training); their mean: the score of a link (model)

Training may start from an older model's counts (prior), to learn more or to adapt to the text that is aligned.
The arithmetic is in C++ (native/). `pipelines.aligner.reference` is the same in NumPy, slower, as documentation and as
the tests' oracle. Both give the same model and the same links. `aligners` lists the aligners that a job can use.
"""

try:
    import pipelines.aligner._native  # noqa: F401
except ImportError as error:
    raise ImportError(
        "The word aligner's compiled part, pipelines.aligner._native, cannot be imported "
        f"({error}). In a checkout, build it with: pip install -e . (needs a C++17 compiler)"
    ) from error
from pipelines.aligner.aligners import ALIGNERS, Aligner, AlignerKind, aligner_kind
from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.model import AlignmentModel
from pipelines.aligner.numbered import NumberedPairs
from pipelines.aligner.training import train

__all__ = [
    "ALIGNERS",
    "Aligner",
    "AlignerConfig",
    "AlignerKind",
    "AlignmentModel",
    "NumberedPairs",
    "aligner_kind",
    "train",
]
