"""Plain functions on plain values; nothing here imports Beam's transforms."""
