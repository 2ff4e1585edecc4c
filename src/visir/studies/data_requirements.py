"""Data and weights that experiments need and visir does not include: where each belongs, and where to get it."""

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
    """A data set, or the weights of a model."""

    name: str  # the name that studies use
    description: str  # what it is, in words
    instructions: str  # what to download, and where to put it
    path: str = ""  # the file or folder that must exist; "$VISIR_DATA" in it stands for the directory of real data
    model: str = ""  # instead of a path: a name on the Hugging Face hub, which must lie in the hub's cache

    @property
    def is_available(self) -> bool:
        """Whether it is on this machine now."""
        if self.path:
            return Path(expand(self.path)).exists()
        from importlib.util import find_spec

        if find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(self.model, "config.json"), str)

    def __str__(self) -> str:
        where = expand(self.path) if self.path else f"{self.model} in the cache of the Hugging Face hub"
        return f"{self.description}: {where} is not there. {expand(self.instructions)}"


@cache
def data_requirements() -> dict[str, DataRequirement]:
    """All requirements by name."""
    entries = tomllib.loads(read_bytes(FILE).decode())
    return {name: DataRequirement(name, **entry) for name, entry in entries.items()}


def data_requirement(name: str) -> DataRequirement:
    """A requirement by name."""
    if name not in data_requirements():
        raise ConfigurationError(f"{FILE.name}: nothing is called {name!r}.", hint=nearest(name, data_requirements()))
    return data_requirements()[name]
