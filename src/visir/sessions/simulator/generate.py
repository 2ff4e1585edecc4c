"""A simulated log on disk: part after part, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq

from visir.errors import ConfigurationError, raise_faults
from visir.progress import Progress
from visir.sessions.definition import ACTIONS
from visir.sessions.simulator.shop import Shop
from visir.sessions.simulator.simulate import (
    EVENTS,
    Dirt,
    SimulatedPeople,
    add_dirt,
    causes_of,
    code_events,
    events_table,
    planted_table,
    simulate,
)
from visir.sessions.sql import part_name
from visir.storage import FolderKind, new_folder

LOG = FolderKind("log", "a generated log", remedy="visir sessions generate --sessions N --out FOLDER")

PEOPLE = 50_000
"""People per part: about a million events."""


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """What a simulated log holds.

    Args:
        people: People who came.
        sessions: Sessions.
        purchases: Sessions with an order.
        rows: Events, dirt included.
        dirt: Rows of each kind of dirt (see `Dirt`).
    """

    people: int
    sessions: int
    purchases: int
    rows: int
    dirt: dict[str, int]


def generate(
    out: str | Path,
    sessions: int,
    *,
    seed: int = 0,
    shop: Shop | None = None,
    dirt: Dirt | None = None,
    planted: bool = False,
    replace: bool = False,
) -> GeneratedLog:
    """Write a log with at least so many sessions into a new folder; the last person's sessions are all in it.

    - `events/part-*.parquet`: the log, columns as in the preset `events`. A part holds 50,000 people in the order of
      time (with `dirt`: of arrival); a person is in one part only.
    - `mapping.toml`: how to read it, `load_mapping(out / "mapping.toml")`
    - `planted/part-*.parquet`, if `planted`: what nobody can see, one row per session (`simulate.PLANTED`)
    - `generated.json`: the shop, the seed, the counts

    Person `i` of a seed is the same in a log of any size, so a larger log begins with the smaller one.

    Args:
        out: The folder to make.
        sessions: At least so many sessions, of about eight events each.
        seed: Another seed is another log.
        shop: The causes; by default `Shop()`.
        dirt: What to add to the clean log.
        planted: Write what nobody can see too: intents, chances.
        replace: Replace `out` where it exists.

    Raises:
        VisirError: `out` exists.
        ConfigurationError: `sessions` or `seed` is out of range.
    """
    shop = shop or Shop()
    causes = causes_of(shop, seed)
    with new_folder(out, LOG, replace=replace) as change, Progress("generating", sessions, "sessions") as advance:
        people = simulated = bought = rows = 0
        dirt_counts: Counter[str] = Counter()
        for number, part in enumerate(simulated_parts(sessions, seed=seed, shop=shop)):
            name = part_name(number)
            log = code_events(part)
            if dirt is not None:
                log, counted = add_dirt(log, dirt, seed)
                dirt_counts.update(counted)
            table = events_table(shop, causes, log)
            plain = [field for field in table.column_names if field not in ("time", "price")]
            path = change.file(f"events/{name}")
            pq.write_table(table, path, compression="zstd", compression_level=1, use_dictionary=plain)
            if planted:
                pq.write_table(planted_table(shop, causes, part), change.file(f"planted/{name}"))
            people += part.people
            simulated += len(part.sessions["person"])
            bought += int(part.sessions["purchase"].sum())
            rows += table.num_rows
            advance(min(simulated, sessions) - min(simulated - len(part.sessions["person"]), sessions))
        counts = GeneratedLog(people, simulated, bought, rows, dict(dirt_counts))
        change.write("mapping.toml", _mapping(shop).encode())
        change.write_json(
            "generated.json",
            {
                "seed": seed,
                "counts": asdict(counts),
                "dirt": asdict(dirt or Dirt()),
                "shop": {**asdict(shop), "begin": shop.begin.isoformat()},
            },
        )
    return counts


def simulated_parts(
    sessions: int, *, seed: int = 0, shop: Shop | None = None, people_per_part: int = PEOPLE
) -> Iterator[SimulatedPeople]:
    """The same log as arrays, part after part: whole people, until there are so many sessions.

    Args:
        sessions: At least so many sessions.
        seed: Another seed is another log.
        shop: The causes; by default `Shop()`.
        people_per_part: How many people a part holds.

    Raises:
        ConfigurationError: `sessions` or `seed` is out of range.
    """
    faults = [f"sessions must be at least 1, not {sessions}"] if sessions < 1 else []
    faults += [f"seed must not be negative, found {seed}"] if seed < 0 else []
    raise_faults(ConfigurationError, "generated log", faults)
    causes = causes_of(shop or Shop(), seed)
    first = simulated = 0
    while simulated < sessions:
        part = simulate(causes, first, first + people_per_part, most_sessions=sessions - simulated)
        first += part.people
        simulated += len(part.sessions["person"])
        yield part


def _mapping(shop: Shop) -> str:
    """The preset `events` with the shop's time zone, and what reveals dirt: bots name no device, the log has an end."""
    # The end is a day after the last session begins, so that this session is not cut.
    columns = "\n".join(f'{name} = "{name}"' for name in EVENTS.names)
    actions = "\n".join(f'{name} = "{name}"' for name in ACTIONS)
    end = shop.begin + timedelta(weeks=shop.weeks, days=1)
    return f'''about = "A generated log (visir.sessions.simulator)."
format = "parquet"
unit = "us"
zone = "{shop.zone}"
required = ["visitor", "time", "action"]
bot = "device IS NULL"
until = {end.isoformat()}T00:00:00Z

[raw]
{columns}

[events]
{columns}

[actions]
{actions}
'''
