"""Models that turn images and texts into vectors, and the store that keeps what they made."""
