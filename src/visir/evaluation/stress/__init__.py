"""Stress (the brittleness study): search with perturbed captions and pictures, and what it costs.

`stress` (what is asked) → `task` (who answers: an `encoder`, `runs`, a `command`) → `effect` (what it cost), `jaccard`.
"""
