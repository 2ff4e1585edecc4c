"""Robustness: break queries on purpose, in declared ways, and describe how detailed captions are."""
