"""Predicting purchase intent (thesis section 6.5): models, folds, the study, saved models, live scores."""
