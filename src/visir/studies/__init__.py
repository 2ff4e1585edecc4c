"""Studies: several trainings and evaluations that are one table.

`trial` is one training and its evaluations, kept on disk; it carries out many, side by side, and goes on where it was
stopped. `shortcut_audit` is the first study: how much retrieval an
objective loses to a synthetic shortcut. `profile` is what a model can do: every task that data is at hand for.
"""
