"""Steps that both jobs use: files and paths, tokenizers, counts of rejects, sampling by hash."""
