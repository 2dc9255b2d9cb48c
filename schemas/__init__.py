"""The contract between the pipelines and the trainer: records, Arrow schemas, shards, manifest, inspection."""
