"""Stress (the brittleness study): search with perturbed captions and pictures, and what it costs.

`stress` (conditions, and the search of each) → `merging` (one run over all queries) → `effect` (the cost), `jaccard`.
"""
