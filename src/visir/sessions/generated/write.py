"""A generated log on disk: part after part, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from visir.errors import ConfigurationError, raise_faults
from visir.files import atomic_folder, write_bytes, write_json
from visir.progress import Progress
from visir.sessions.generated.arrays import causes_of
from visir.sessions.generated.shop import Shop
from visir.sessions.generated.simulate import Simulated, simulate
from visir.sessions.generated.table import events_table, planted_table

PEOPLE = 50_000
"""People per part: about a million events."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generated log holds: its people, sessions, purchase sessions and events."""

    people: int
    sessions: int
    purchases: int
    events: int


def generate(
    out: str | Path,
    sessions: int,
    *,
    seed: int = 0,
    shop: Shop | None = None,
    planted: bool = False,
    replace: bool = False,
) -> Generated:
    """Write a log with at least `sessions` sessions into a new folder `out`: the last person's sessions are all there.

    - `events/part-*.parquet`: the log, columns as in the preset `events`. A part holds 50,000 people in the order of
      time; a person is in one part only
    - `mapping.toml`: how to read it, `load_mapping(out / "mapping.toml")`
    - `planted/part-*.parquet`, if asked for: one row per session with what nobody can see
      (`visir.sessions.generated.table.PLANTED`)
    - `generated.json`: the shop, the seed, the counts

    Person `i` of a seed is the same in a log of any size, so a larger log begins with the smaller one. Raises
    `VisirError` where `out` exists (unless `replace`), `ConfigurationError` where `sessions` or `seed` is out of range.
    """
    shop = shop or Shop()
    causes = causes_of(shop, seed)
    with atomic_folder(out, replace=replace) as folder, Progress("generating", sessions, "sessions") as advance:
        (folder / "events").mkdir()
        if planted:
            (folder / "planted").mkdir()
        people = found = bought = events = 0
        for number, part in enumerate(parts(sessions, seed=seed, shop=shop)):
            name = f"part-{number:05d}.parquet"
            table = events_table(shop, causes, part)
            plain = [field for field in table.column_names if field not in ("time", "price")]
            pq.write_table(
                table, folder / "events" / name, compression="zstd", compression_level=1, use_dictionary=plain
            )
            if planted:
                pq.write_table(planted_table(shop, causes, part), folder / "planted" / name)
            people += part.people
            found += len(part.sessions["person"])
            bought += int(part.sessions["purchase"].sum())
            events += table.num_rows
            advance(len(part.sessions["person"]))
        counts = Generated(people, found, bought, events)
        write_bytes(folder / "mapping.toml", _mapping(shop).encode())
        write_json(folder / "generated.json", {"seed": seed, "counts": asdict(counts), "shop": _plain(shop)})
    return counts


def parts(
    sessions: int, *, seed: int = 0, shop: Shop | None = None, people_per_part: int = PEOPLE
) -> Iterator[Simulated]:
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
    """The preset `events`, with the shop's time zone."""
    names = ("visitor", "customer", "time", "device", "channel", "page", "query", "price", "action")
    own = "\n".join(f'{name} = "{name}"' for name in names)
    actions = "\n".join(f'{name} = "{name}"' for name in ("page", "query", "add", "remove", "order", "other"))
    return (
        'about = "A generated log (visir.sessions.generated)."\nformat = "parquet"\nunit = "us"\n'
        f'zone = "{shop.zone}"\nrequired = ["visitor", "time", "action"]\n\n'
        f"[raw]\n{own}\n\n[events]\n{own}\n\n[actions]\n{actions}\n"
    )


def _plain(shop: Shop) -> dict[str, Any]:
    return {**asdict(shop), "begin": shop.begin.isoformat()}
