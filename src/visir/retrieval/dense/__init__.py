"""Indexes over dense vectors: exact, and an HNSW graph."""
