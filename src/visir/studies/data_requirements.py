"""What cells need that is no part of visir: named once, with where it belongs and where it is to be had."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from visir.errors import ConfigurationError, nearest
from visir.files import read_bytes
from visir.training.recipe import expand

FILE = Path(__file__).parent / "data_requirements.toml"


@dataclass(frozen=True)
class DataRequirement:
    """Data or weights.

    - `what`: in words
    - `path`: the file or folder that is there when it is at hand ("$VISIR_DATA" in it is the directory of real data);
      or `model`, a name on the Hugging Face hub, which is at hand when it lies in the hub's cache
    - `get`: what to download and where to put it
    """

    name: str
    what: str
    get: str
    path: str = ""
    model: str = ""

    @property
    def at_hand(self) -> bool:
        """Whether it is here now."""
        if self.path:
            return Path(expand(self.path)).exists()
        from importlib.util import find_spec

        if find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(self.model, "config.json"), str)

    def __str__(self) -> str:
        where = expand(self.path) if self.path else f"{self.model} in the cache of the Hugging Face hub"
        return f"{self.what}: {where} is not there. {expand(self.get)}"


@cache
def data_requirements() -> dict[str, DataRequirement]:
    """All places by name."""
    return {name: DataRequirement(name, **said) for name, said in tomllib.loads(read_bytes(FILE).decode()).items()}


def data_requirement(name: str) -> DataRequirement:
    """A place by name."""
    if name not in data_requirements():
        raise ConfigurationError(f"{FILE.name}: nothing is called {name!r}.", hint=nearest(name, data_requirements()))
    return data_requirements()[name]
