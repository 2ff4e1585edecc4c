"""What is searched: image–caption collections, one file per published format."""
