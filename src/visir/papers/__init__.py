"""Every numbered table and result figure of the three documents as a study: one small TOML file in `tables/`.

`study` reads them: what a table claims, and the cells that make it, at up to three scales. An act carries a cell out: a
training, an evaluation, a count; `acts/` has those of the road, other applications register their own (`registered`).
`cells` keeps each as it finishes, `run` goes through them, `verdict` says value by value and pair by pair what came of
it, and `answers` sums that up as thesis chapter 2 does: reproducible, replicable, generalisable.
"""
