"""A run: its loop, checkpoints, folder, log and failures."""
