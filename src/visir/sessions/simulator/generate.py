"""A generated log on disk: part after part, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq

from visir.errors import ConfigurationError, raise_faults
from visir.progress import Progress
from visir.sessions.mapping import ACTIONS
from visir.sessions.simulator.arrays import causes_of
from visir.sessions.simulator.dirt import Dirt, add_dirt
from visir.sessions.simulator.shop import Shop
from visir.sessions.simulator.simulate import SimulatedPeople, simulate
from visir.sessions.simulator.table import EVENTS, coded, events_table, planted_table
from visir.sessions.simulator.truth import truth
from visir.storage import FolderKind, new_folder

LOG = FolderKind("log", "a generated log", remedy="visir intent generate --sessions N --out FOLDER")

PEOPLE = 50_000
"""People per part: about a million events."""


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """What a generated log holds: its people, sessions, purchase sessions, rows, and its dirt by kind (see `Dirt`)."""

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
    """Write a log with at least `sessions` sessions into a new folder `out`: the last person's sessions are all there.

    - `events/part-*.parquet`: the log, columns as in the preset `events`. A part holds 50,000 people in the order of
      time (with `dirt`: of arrival); a person is in one part only
    - `mapping.toml`: how to read it, `load_mapping(out / "mapping.toml")`
    - `planted/part-*.parquet` and `truth.json`, if asked for: what nobody can see, one row per session
      (`visir.sessions.simulator.table.PLANTED`), and `truth(shop)`
    - `generated.json`: the shop, the seed, the counts

    Person `i` of a seed is the same in a log of any size, so a larger log begins with the smaller one. Raises
    `VisirError` where `out` exists (unless `replace`), `ConfigurationError` where `sessions` or `seed` is out of range.
    """
    shop = shop or Shop()
    causes = causes_of(shop, seed)
    with new_folder(out, LOG, replace=replace) as change, Progress("generating", sessions, "sessions") as advance:
        people = found = bought = rows = 0
        soiled: Counter[str] = Counter()
        for number, part in enumerate(parts(sessions, seed=seed, shop=shop)):
            name = f"part-{number:05d}.parquet"
            log = coded(part)
            if dirt is not None:
                log, counted = add_dirt(log, dirt, seed)
                soiled.update(counted)
            table = events_table(shop, causes, log)
            plain = [field for field in table.column_names if field not in ("time", "price")]
            path = change.file(f"events/{name}")
            pq.write_table(table, path, compression="zstd", compression_level=1, use_dictionary=plain)
            if planted:
                pq.write_table(planted_table(shop, causes, part), change.file(f"planted/{name}"))
            people += part.people
            found += len(part.sessions["person"])
            bought += int(part.sessions["purchase"].sum())
            rows += table.num_rows
            advance(min(found, sessions) - min(found - len(part.sessions["person"]), sessions))
        counts = GeneratedLog(people, found, bought, rows, dict(soiled))
        if planted:
            change.write_json("truth.json", truth(shop).to_dict())
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


def parts(
    sessions: int, *, seed: int = 0, shop: Shop | None = None, people_per_part: int = PEOPLE
) -> Iterator[SimulatedPeople]:
    """The same log as arrays, part after part: whole people, until there are `sessions` sessions."""
    faults = [f"sessions must be at least 1, not {sessions}"] if sessions < 1 else []
    faults += [f"seed must not be negative, found {seed}"] if seed < 0 else []
    raise_faults(ConfigurationError, "generated log", faults)
    causes = causes_of(shop or Shop(), seed)
    first = found = 0
    while found < sessions:
        part = simulate(causes, first, first + people_per_part, most_sessions=sessions - found)
        first += part.people
        found += len(part.sessions["person"])
        yield part


def _mapping(shop: Shop) -> str:
    """The preset `events` with the shop's time zone, and what tells dirt: bots name no device, the log has an end.

    The end is a day after the last session begins, so that this session is not cut.
    """
    own = "\n".join(f'{name} = "{name}"' for name in EVENTS.names)
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
{own}

[events]
{own}

[actions]
{actions}
'''
