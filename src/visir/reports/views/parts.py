"""What the views of several records have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from visir.display import counted
from visir.records import Protocol
from visir.reports.page import Fold, Inline, Paragraph, inline
from visir.reports.table import Table
from visir.reports.tables import card_table


def facts(name: str, *entries: tuple[int, str] | str) -> Paragraph:
    """The first line of a record: its name, then counts and what else is said of it."""
    texts = [counted(*entry) if isinstance(entry, tuple) else entry for entry in entries]
    return Paragraph(Markup(" · ").join([inline("<b>{}</b>", name), *filter(None, texts)]))


def some_rows(total: int, limit: int) -> NDArray[np.int64]:
    """At most `limit` rows from all over a list, the same at every call."""
    if total <= limit:
        return np.arange(total)
    return np.linspace(0, total - 1, limit).astype(np.int64)


def protocol_facts(system: str, protocol: Protocol) -> dict[str, Inline]:
    """What stands below the heading of a page whose numbers have a protocol."""
    fingerprint = inline("<code>{}</code>", protocol.fingerprint[:12])
    return {"system": system, "collection": protocol.collection, "split": protocol.split, "protocol": fingerprint}


def protocol_card(protocol: Protocol) -> Fold:
    """The card of a protocol, folded."""
    return Fold("Protocol card", [replace(card_table(protocol), caption="")])


def itself(table: Table) -> Table:
    """A table on its own."""
    return table
