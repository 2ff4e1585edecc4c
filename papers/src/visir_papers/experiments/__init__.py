"""Experiments of the road: each one file, registered in `visir_papers.application`."""
