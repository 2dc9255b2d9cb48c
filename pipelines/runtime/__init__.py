"""Runs jobs on Beam: launches them, keeps their work folders, writes their datasets and logs their progress."""
