"""Benchmarks, one module each: from the files as they are published to labelled records (`schemas.mrc`)."""
