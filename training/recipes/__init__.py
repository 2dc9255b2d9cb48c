"""Recipes and configurations of the commands. Free of torch, so that `--help` is quick."""
