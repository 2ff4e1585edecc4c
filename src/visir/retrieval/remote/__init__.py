"""Indexes in an existing engine, Qdrant: embedded in this process, or a server or cluster behind an address."""
