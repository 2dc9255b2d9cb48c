"""Plumbing around Beam: launching a job, its work folder, writing its dataset, progress."""
