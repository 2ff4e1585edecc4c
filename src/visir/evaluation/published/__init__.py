"""Published values as small data, and what it means to agree with them.

A published table is one JSON or TOML file (`record.py` gives the form); the ones that ship with visir lie beside this
file. `judge.py` says, per value, whether it is reproduced, and per measure, whether the order of systems is kept.
"""

from visir.evaluation.published.judge import Judgement, Order, judge, orders, printed_value
from visir.evaluation.published.record import Published, PublishedRow, load, shipped

__all__ = ["Judgement", "Order", "Published", "PublishedRow", "judge", "load", "orders", "printed_value", "shipped"]
