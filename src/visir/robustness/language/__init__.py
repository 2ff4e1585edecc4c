"""What is known of words without a download: tokens, parts of speech, lemmas, WordNet, inflection."""
