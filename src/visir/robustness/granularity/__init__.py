"""Features of captions that say how detailed they are, one file each."""
