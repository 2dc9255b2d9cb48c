"""Steps that both jobs use: files and paths, tokenizers, rejects, sampling by hash."""
