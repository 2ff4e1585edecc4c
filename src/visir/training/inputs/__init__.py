"""Inputs: where a tower's batches come from. One file per kind."""
