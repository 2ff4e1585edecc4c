"""Every numbered table and result figure of the three documents as a study: one small TOML file in `tables/`.

    visir_papers.studies()                      # which there are
    visir_papers.show("thesis-table-3-2")       # what it claims, and how far it is
    visir_papers.run("thesis-table-3-2")        # on generated data; scale="full" on the paper's own
    visir_papers.compare("thesis-table-3-2")    # measured beside printed

`study` reads them: what a table claims, and the cells that make it, at up to four scales. An experiment (`experiment`,
`experiments/`) carries a cell out: a training, an evaluation, a count. `cells` goes through them and keeps each as it
finishes. `verdicts` says value by value and pair by pair what came of it, and sums that up as thesis chapter 2 does:
reproducible, replicable, generalisable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir_papers.status import compare as compare
    from visir_papers.status import run as run
    from visir_papers.status import show as show
    from visir_papers.status import studies as studies
    from visir_papers.study import read_study as read_study

__getattr__, __dir__, __all__ = lazy(__name__)
