"""Studies: several trainings and evaluations that are one table.

`trial` is one training and its evaluations, kept on disk; `trials` carries out many, side by side, and goes on where it
was stopped; `trained` is a training that a cell needs. `shortcut_audit` is the first study: how much retrieval an
objective loses to a synthetic shortcut. `profile` is what a model can do: every task that data is at hand for. `act`,
`shape` and `places` are what a cell of a table, a sentence about a figure and data from elsewhere are; the applications
have acts and shapes of their own, and `visir.papers` the tables.
"""
