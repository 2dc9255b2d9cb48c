"""From shards to batches: rows, the plan of which rows make a step, features, tensors."""
