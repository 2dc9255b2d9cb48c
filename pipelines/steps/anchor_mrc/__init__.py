"""Articles with links → queries, contexts and anchor-MRC examples (mPMR, section 2)."""
