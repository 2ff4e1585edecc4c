"""Experiments of the road: each one file, registered in `visir.papers.application`."""
