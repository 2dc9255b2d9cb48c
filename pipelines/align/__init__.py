"""Aligns words without a job: the commands of `polyspan-data align`."""
