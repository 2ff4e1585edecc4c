"""The package `mteb`, both ways: encoders of visir as its models, and its files of results."""
