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
    from visir.sessions.definition import (
        ACTIONS,
        COLUMNS,
        COUNTED,
        FLAGS,
        IDLE_MINUTES,
        REASONS,
        LogMapping,
        load_mapping,
        preset,
        presets,
    )
    from visir.sessions.description import Characterisation, describe
    from visir.sessions.making import Sessions, make, sessionise
    from visir.sessions.online.ab_test import AbTest, DecisionLog, ab_test, assign
    from visir.sessions.prediction.live import LiveScorer, score
    from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
    from visir.sessions.prediction.service import serve
    from visir.sessions.prediction.study import predict
    from visir.sessions.prediction.training import train
    from visir.sessions.simulator import generate
    from visir.sessions.table_labels import LogCounts

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Characterisation": "visir.sessions.description",
        "describe": "visir.sessions.description",
        "Sessions": "visir.sessions.making",
        "make": "visir.sessions.making",
        "LiveScorer": "visir.sessions.prediction.live",
        "score": "visir.sessions.prediction.live",
        "predict": "visir.sessions.prediction.study",
        "PurchaseModel": "visir.sessions.prediction.purchase_model",
        "load_model": "visir.sessions.prediction.purchase_model",
        "serve": "visir.sessions.prediction.service",
        "train": "visir.sessions.prediction.training",
        "generate": "visir.sessions.simulator",
        "AbTest": "visir.sessions.online.ab_test",
        "ab_test": "visir.sessions.online.ab_test",
        "DecisionLog": "visir.sessions.online.ab_test",
        "assign": "visir.sessions.online.ab_test",
        "ACTIONS": "visir.sessions.definition",
        "COLUMNS": "visir.sessions.definition",
        "COUNTED": "visir.sessions.definition",
        "LogCounts": "visir.sessions.table_labels",
        "FLAGS": "visir.sessions.definition",
        "IDLE_MINUTES": "visir.sessions.definition",
        "LogMapping": "visir.sessions.definition",
        "REASONS": "visir.sessions.definition",
        "load_mapping": "visir.sessions.definition",
        "preset": "visir.sessions.definition",
        "presets": "visir.sessions.definition",
        "sessionise": "visir.sessions.making",
    },
)

__all__ = [
    "ACTIONS",
    "COLUMNS",
    "COUNTED",
    "FLAGS",
    "IDLE_MINUTES",
    "REASONS",
    "AbTest",
    "Characterisation",
    "DecisionLog",
    "LiveScorer",
    "LogCounts",
    "LogMapping",
    "PurchaseModel",
    "Sessions",
    "ab_test",
    "assign",
    "describe",
    "generate",
    "load_mapping",
    "load_model",
    "make",
    "predict",
    "preset",
    "presets",
    "score",
    "serve",
    "sessionise",
    "train",
]
