"""A protocol: what its numbers mean, and its card."""

from __future__ import annotations

from dataclasses import replace

from visir.records import Protocol
from visir.reports.page import Block, Definitions, Fold
from visir.reports.tables import card_table
from visir.reports.views.parts import facts
from visir.reports.words import meaning


def blocks(protocol: Protocol) -> list[Block]:
    """In words, and the card folded."""
    heading = facts(f"Protocol {protocol.fingerprint[:12]}", protocol.collection, protocol.split)
    card = replace(card_table(protocol), caption="")
    return [heading, Definitions(meaning(protocol)), Fold("Protocol card", [card])]
