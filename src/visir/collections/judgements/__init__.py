"""Judgements beside the links: one file per published set, each with a `FORMAT` that describes it."""
