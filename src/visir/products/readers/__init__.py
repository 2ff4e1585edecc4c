"""Readers of catalogues, each one file with a `FORMAT` that describes it."""
