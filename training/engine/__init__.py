"""Runs the training loop and keeps its checkpoints, run folder and log; handles failures and signals."""
