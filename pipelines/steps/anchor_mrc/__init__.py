"""Makes queries, contexts and anchor-MRC examples of articles with links (mPMR, section 2)."""
