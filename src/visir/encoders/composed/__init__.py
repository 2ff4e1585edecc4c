"""One vector for a text and an image together, from encoders that read them apart."""
