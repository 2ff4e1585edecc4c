"""The HTTP service: libraries that people search in a browser or a program (`visir library serve`)."""
