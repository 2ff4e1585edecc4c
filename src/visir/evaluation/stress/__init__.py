"""Stress (the brittleness study): search with perturbed captions and pictures, and measure the loss.

`stress` searches under each condition, `effect` measures the loss; `answers` has the systems that are no models.
"""
