"""The state of a stream in one file: written at once, so that a killed reader goes on from the last one.

A state belongs to its model: another model would score the sessions in it from other features.
"""

from __future__ import annotations

from pathlib import Path

from visir.errors import VisirError
from visir.files import json_bytes, read_json
from visir.fingerprint import hash_json
from visir.sessions.prediction.live import LiveScorer
from visir.storage import check_version, new_file

VERSION = 1
"""Of the file."""

_REMEDY = "name another file (--state); the stream begins anew with it"


def save_state(scorer: LiveScorer, path: str | Path, *, lines: int) -> None:
    """Write the state of a stream, in place of an earlier one."""
    document = {
        "visir_purchase_stream": VERSION,
        "model": hash_json(scorer.model.card),
        "lines": lines,
        "state": scorer.to_state(),
    }
    with new_file(path, replace=True) as target:
        target.write_bytes(json_bytes(document))


def restore_state(scorer: LiveScorer, path: str | Path) -> int:
    """Go on from a saved state."""
    document = read_json(path)
    version = document.get("visir_purchase_stream") if isinstance(document, dict) else None
    check_version(version, VERSION, path, what="state of a stream", remedy=_REMEDY)
    try:
        model, lines = document["model"], int(document["lines"])
        if model == hash_json(scorer.model.card):
            scorer.restore(document["state"])
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise VisirError(f"{path}: damaged: {type(fault).__name__}: {fault}.", hint=_REMEDY) from fault
    if model != hash_json(scorer.model.card):
        raise VisirError(f"{path}: the state of a stream that another model scored.", hint=_REMEDY)
    return lines
