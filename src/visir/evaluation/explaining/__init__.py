"""Under which protocol was a published number computed?

Readings are data (`readings.py`). What is at hand becomes ranks (`bench.py`, with `world.py` and `ranks.py`), ranks
become values that are compared with printed digits (`trial.py`), and the plainest reading that fits is looked for
(`searching.py`). `explain.py` is the entrance, and says the answer.
"""

from visir.evaluation.explaining.explain import Explanation, explain
from visir.evaluation.explaining.readings import Material
from visir.evaluation.explaining.searching import Fit

__all__ = ["Explanation", "Fit", "Material", "explain"]
