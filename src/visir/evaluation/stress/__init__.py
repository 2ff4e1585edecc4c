"""Stress (the brittleness study): search with perturbed captions and pictures, and what it costs.

`stress` (conditions) → `subject` (the system: an `encoder`, `runs`, a `command`) → `effect` (the cost), `jaccard`.
"""
