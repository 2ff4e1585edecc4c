"""Search over weighted words: exact scans for evaluation, inverted indexes for serving."""
