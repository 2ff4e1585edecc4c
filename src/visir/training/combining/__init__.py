"""Training a combiner: from queries of a picture and a text to an encoder of both."""
