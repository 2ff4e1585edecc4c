"""Studies: several trainings and evaluations that are one table.

`trial` is one training and its evaluations, kept on disk; it carries out many, side by side, goes on where it was
stopped, and does a training that several cells need once. `shortcut_audit` is the first study: how much retrieval an
objective loses to a synthetic shortcut. `profile` is what a model can do: every task that data is at hand for.
`experiment` is what a cell of a table and a sentence about a figure are; the applications have some of their own, and
`visir_papers` the tables.
"""
