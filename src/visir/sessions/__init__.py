"""Sessions of shop logs (thesis chapter 6): raw events in, sessions out.

This application needs nothing of images or captions. `mapping` declares how the columns of a log become events;
`definition` says what a session is, as SQL text; `source` finds the files of a log;
`sessionisation` runs the definition in bounded memory, `bucket` by bucket; `spark` spreads them over a cluster. On the
sessions build `description` (what distinguishes sessions that buy), `prediction` (predicting a purchase) and
`simulator` (logs with known causes). Names are imported when first used.

The surface, in the order of work: `make` (a log to sessions), `describe` (what distinguishes sessions that buy),
`predict` (a study of models), `train`, `score`, `serve`, `ab_test` (an online test, read out at any time); and
`generate` (a log whose causes are known).

Example:
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from visir.sessions import preset, sessionise
    >>> minutes = [0, 10, 50]  # more than thirty minutes without a request end a session
    >>> log = pa.table({"visitor": ["ann"] * 3, "time": [m * 60_000_000 for m in minutes], "action": ["page"] * 3})
    >>> pq.write_table(log, "log.parquet")
    >>> counts = sessionise("log.parquet", preset("events"), "sessions-of-ann")
    >>> counts.read, counts.sessions, counts.purchases
    (3, 2, 0)
    >>> pq.read_table("sessions-of-ann/sessions").select(["visitor", "session", "pages"]).to_pylist()
    [{'visitor': 'ann', 'session': 1, 'pages': 2}, {'visitor': 'ann', 'session': 2, 'pages': 1}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.sessions.definition import ACTIONS as ACTIONS
    from visir.sessions.definition import COLUMNS as COLUMNS
    from visir.sessions.definition import COUNTED as COUNTED
    from visir.sessions.definition import FLAGS as FLAGS
    from visir.sessions.definition import IDLE_MINUTES as IDLE_MINUTES
    from visir.sessions.definition import REASONS as REASONS
    from visir.sessions.definition import LogMapping as LogMapping
    from visir.sessions.definition import load_mapping as load_mapping
    from visir.sessions.definition import preset as preset
    from visir.sessions.definition import presets as presets
    from visir.sessions.description import Characterisation as Characterisation
    from visir.sessions.description.describe import describe as describe
    from visir.sessions.making import Sessions as Sessions
    from visir.sessions.making import make as make
    from visir.sessions.making import sessionise as sessionise
    from visir.sessions.online.ab_test import AbTest as AbTest
    from visir.sessions.online.ab_test import DecisionLog as DecisionLog
    from visir.sessions.online.ab_test import ab_test as ab_test
    from visir.sessions.online.ab_test import assign as assign
    from visir.sessions.prediction.live import LiveScorer as LiveScorer
    from visir.sessions.prediction.live import score as score
    from visir.sessions.prediction.purchase_model import PurchaseModel as PurchaseModel
    from visir.sessions.prediction.purchase_model import load_model as load_model
    from visir.sessions.prediction.service import serve as serve
    from visir.sessions.prediction.study import predict as predict
    from visir.sessions.prediction.training import train as train
    from visir.sessions.simulator import generate as generate
    from visir.sessions.table_labels import LogCounts as LogCounts

__getattr__, __dir__, __all__ = lazy(__name__)
