"""The datasets that the pipelines write and the trainer reads: records, Arrow schemas, shards, manifest, inspection."""
