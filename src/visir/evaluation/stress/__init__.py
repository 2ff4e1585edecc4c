"""Stress (the brittleness study): search with perturbed captions and pictures, and measure the loss.

`stress` (conditions, and the search of each) → `merging` (one run over all queries) → `effect` (the loss), `jaccard`.
"""
