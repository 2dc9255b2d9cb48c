"""Apache Beam jobs that turn raw multilingual text into Arrow shards."""
