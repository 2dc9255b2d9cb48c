"""Does the trainer learn what the papers say? Small models, from scratch, on shards made of generated text."""
