"""The word aligner in NumPy: `train` and `align_batch` as the package has them, to read and to compare with.

    batches of similar length (batches)
      → p(target word | source word) and the reverse, from counts (lexicon)
      → posteriors of an HMM in each direction (hmm), reweighted by fertility (fertility)
      → their product: counts for the next pass (training); their mean: the score of a link (alignment)

Both give equal models and equal links: counts are whole numbers, and what is real is summed in one order. Only the
expected jumps are summed in another order, and they are rounded. Nothing but tests and benchmarks imports this.
"""

from pipelines.aligner.reference.alignment import align_batch, directed_links
from pipelines.aligner.reference.training import train

__all__ = ["align_batch", "directed_links", "train"]
