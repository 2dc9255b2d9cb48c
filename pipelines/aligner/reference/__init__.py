"""The word aligner in NumPy: the same `train` and `align_batch`, for reading and for comparison.

    batches of similar length (batches)
      → p(target word | source word) and the reverse, from counts (lexicon)
      → posteriors of an HMM in each direction (hmm), reweighted by fertility (fertility)
      → their product: counts for the next pass (training); their mean: the score of a link (alignment)

Both give equal models and equal links: counts are whole numbers, and real numbers are summed in the same order. Only
expected jumps are summed in another order, and they are rounded. Only tests and benchmarks import this package.
"""

from pipelines.aligner.reference.alignment import align_batch, directed_links
from pipelines.aligner.reference.training import train

__all__ = ["align_batch", "directed_links", "train"]
