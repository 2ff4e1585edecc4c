"""Under which protocol was a published number computed?

A reading is a line of one table with its function (`readings.py`): of who searches among whom (`world.py`), of scores,
ranks and values (`ranks.py`). The plainest that gives the printed digits is looked for (`search.py`); `explain.py` is
the entrance, and says the answer.
"""

from visir.evaluation.explaining.explain import Explanation, Fit, explain
from visir.evaluation.explaining.world import Material

__all__ = ["Explanation", "Fit", "Material", "explain"]
