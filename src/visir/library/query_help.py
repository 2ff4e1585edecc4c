"""What each field of a query means: one text for Python, HTTP (OpenAPI) and the command line.

This file imports nothing, because the command line reads it whenever it starts.
"""

QUERY_HELP = {
    "text": "What to look for, in words.",
    "image": "Look for what fits this picture.",
    "like": "Look for pictures like this one of the library (its id, path or name), which is left out of the answer.",
    "text_weight": "Weight of the text beside a picture, from 0 to 1; 1 is the text alone. Default: 0.5",
    "by": "words, vectors (of the model), or both joined; without it, both where the library has both and a word fits.",
    "system": "dense (late interaction too), sparse or hybrid; without one, dense where the library has it.",
    "fusion": "How several systems are joined: rrf (reciprocal ranks), or weighted (the default beside words).",
    "weight": "Weight of the vectors (default: 0.3), in hybrid search of dense (0.5), in weighted fusion: 0 to 1.",
    "where": "Conditions that every answer satisfies, such as width >= 800; alone they list it, newest first.",
    "category": "Only this folder or category, with everything below it.",
    "read_prices": "Whether words such as 'under 50' are a condition on the price, in a library that has prices.",
    "k": "How many answers.",
    "offset": "How many of the best answers to skip.",
    "rerank": "How many of the best answers the model's matching head puts in order; 0 for none.",
}
