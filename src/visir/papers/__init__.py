"""Every numbered table and result figure of the three documents as a study: one small TOML file in `tables/`.

    visir.papers.studies()                      # which there are
    visir.papers.show("thesis-table-3-2")       # what it claims, and how far it is
    visir.papers.run("thesis-table-3-2")        # on generated data; scale="full" on the paper's own
    visir.papers.compare("thesis-table-3-2")    # measured beside printed

`study` reads them: what a table claims, and the cells that make it, at up to three scales. An experiment carries a cell
out: a training, an evaluation, a count; `experiments/` has those of the road, other applications register their own.
`cells` keeps each as it finishes, `running` goes through them, `verdicts` says value by value and pair by pair what
came of it, and sums that up as thesis chapter 2 does: reproducible, replicable, generalisable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.papers.surface import compare as compare
    from visir.papers.surface import run as run
    from visir.papers.surface import show as show
    from visir.papers.surface import studies as studies

__getattr__, __dir__, __all__ = lazy(__name__)
