"""Classification with a vision–language model: zero-shot by prompts, and few-shot over frozen vectors.

`classify` is the entrance. `templates` and `class_names` make prompts, `truth` finds the class of each picture, `shots`
draws training pictures, `zero_shot`, `shot_probe` and `tip_adapter` are the methods, `accuracy` measures.
"""
