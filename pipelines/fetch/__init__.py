"""`polyspan-data fetch`: downloads published dumps, resumable and checked."""
