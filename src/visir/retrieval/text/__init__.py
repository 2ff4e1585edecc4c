"""Search by words: a saved index over texts with fields, scored by BM25F, with spelling and synonyms."""
