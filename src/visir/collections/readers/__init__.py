"""One file per published layout, each with a `FORMAT` that describes it; and what readers share."""
