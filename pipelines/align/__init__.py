"""Word alignment by itself, without a job: `polyspan-data align`."""
