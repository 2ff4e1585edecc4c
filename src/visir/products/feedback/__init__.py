"""Clicks of a shop's search as judgements: logs, position bias, and corrected grades."""
