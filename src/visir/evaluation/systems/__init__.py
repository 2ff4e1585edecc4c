"""Systems under evaluation: one interface (`base`), their kinds, and `system_of`, which makes a system (`given`)."""

from visir.evaluation.systems.base import System
from visir.evaluation.systems.given import AnySystem, system_of
from visir.evaluation.systems.runs import RunSystem
from visir.evaluation.systems.vectors import EncoderSystem, VectorSystem

__all__ = ["AnySystem", "EncoderSystem", "RunSystem", "System", "VectorSystem", "system_of"]
