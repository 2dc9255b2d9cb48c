"""The GPU trainer: consumes the shards that `pipelines` writes. It has no modules yet."""
