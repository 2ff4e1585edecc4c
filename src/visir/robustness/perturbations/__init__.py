"""Perturbations of captions, one file each."""
