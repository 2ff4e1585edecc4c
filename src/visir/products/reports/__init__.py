"""Reports of the product side: the page of an evaluation, the page of a search."""
