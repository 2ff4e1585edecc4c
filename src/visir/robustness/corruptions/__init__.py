"""Corruptions of pictures: the same kind of thing as perturbations of captions, for queries that are images."""
