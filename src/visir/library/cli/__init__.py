"""The verbs of libraries: `visir index PLACE`, `search`, `serve`, `token`."""
