"""Under which protocol was a published number computed?

Readings are data (`axes.py`). What is at hand becomes ranks (`bench.py`: `world.py`, `parts.py`, `lists.py`,
`similarities.py`, `known_ranks.py`), ranks become values (`recalls.py`, `values.py`), values are compared with printed
digits (`printed.py`, `trial.py`), and the plainest reading that fits is looked for (`candidates.py`, `searching.py`,
`accidents.py`). `explain.py` is the entrance, `sentences.py` says the answer.
"""

from visir.evaluation.explaining.explain import Explanation, explain
from visir.evaluation.explaining.readings import Material
from visir.evaluation.explaining.searching import Fit

__all__ = ["Explanation", "Fit", "Material", "explain"]
