"""The GPU trainer: pre-trains on the shards that `pipelines` writes, fine-tunes, predicts and evaluates."""
