"""Turns shards into batches: opens rows, plans which rows make a step, makes features and packs them as tensors."""
