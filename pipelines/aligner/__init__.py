"""Word alignment: which words of a sentence translate which words of its translation.

`train` learns a model from sentence pairs alone; `AlignmentModel.align_batch` links the words of any pair with it:

    normalise words (words) → batches of similar length (batches)
      → p(target word | source word) and the reverse, from counts (lexicon)
      → posteriors of an HMM in each direction (hmm), reweighted by fertility (fertility)
      → their product: counts for the next pass (training); their mean: the score of a link (model)

This is the readable reference: NumPy only, exactly repeatable, and fast enough for a hundred thousand sentence pairs.
"""

from pipelines.aligner.config import AlignerConfig
from pipelines.aligner.model import AlignmentModel
from pipelines.aligner.training import train

__all__ = ["AlignerConfig", "AlignmentModel", "train"]
