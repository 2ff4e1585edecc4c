"""Experiments and trend checks of chapter 7, on catalogues; registered in `visir.products.application`."""
