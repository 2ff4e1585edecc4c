"""The database of a library, read by several at once."""

from __future__ import annotations

import threading
from pathlib import Path

from visir.library.database import Database

_LONG = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 6000000) SELECT max(x) FROM c"


def test_a_long_query_keeps_nobody_waiting(tmp_path: Path) -> None:
    Database.draft(tmp_path / "items.sqlite", None).close()
    database = Database.open(tmp_path / "items.sqlite")
    begun, ended = threading.Event(), threading.Event()

    def read_long() -> None:
        begun.set()
        assert database.value(_LONG) == 6_000_000
        ended.set()

    long = threading.Thread(target=read_long)
    long.start()
    begun.wait()
    for _ in range(20):
        assert database.value("SELECT count(*) FROM items") == 0
    assert not ended.is_set()
    long.join()
    database.close()
