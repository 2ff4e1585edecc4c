"""Acts of the road: kinds of cells, each one file, registered in `visir.papers.application`."""
