"""`polyspan-inspect`: shows a dataset's examples, statistics and problems."""
