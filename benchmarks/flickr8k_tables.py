"""Tables of trainings under several seeds: what the scripts beside it print and write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from visir.storage import write_new


def spread(values: Any) -> str:
    """Mean ± standard deviation; the value alone where there is one."""
    values = np.asarray(values, float)
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> None:
    """Print a table, and write it as Markdown."""
    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=max(170, Console().width)).print(table)
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    write_new(path, ("\n".join(lines) + "\n").encode(), replace=True)
