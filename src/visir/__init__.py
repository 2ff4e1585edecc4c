"""visir: image–text retrieval whose numbers can be trusted."""

__version__ = "0.1.0"
