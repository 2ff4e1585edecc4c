"""Classification with a vision–language model: zero-shot by prompts, and few-shot over frozen vectors.

`classify` is the entrance. `class_names` makes prompts and the vectors of classes, `labelling` finds the class of each
picture, `few_shot` has the few-shot methods, `result` the accuracies.
"""
