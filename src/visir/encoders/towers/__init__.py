"""Towers: networks of one modality that are trained from scratch or tuned. One file per kind of backbone."""
