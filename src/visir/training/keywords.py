"""Keywords of `visir.train` and `visir.sparsify`: short names for the keys of a recipe that people change most."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.records import Collection, TaskFile, TaskSet
from visir.training.layers import Change

RecipeChanges = Mapping[str, Any] | Sequence[str]
"""Keys of a recipe with their values: {"optimiser.rate": 1e-4}, or ["optimiser.rate=1e-4"] as after `--set`."""

KEYWORDS: dict[str, tuple[str, ...]] = {
    "model": ("image.encoder", "text.encoder"),
    "image_model": ("image.encoder",),
    "text_model": ("text.encoder",),
    "images": ("data.images",),
    "split_by": ("data.split_by",),
    "epochs": ("optimiser.epochs",),
    "batch": ("optimiser.batch",),
    "rate": ("optimiser.rate",),
    "seed": ("seed",),
    "device": ("device",),
}
"""Keyword → the keys of a recipe that it sets."""
SPARSE_KEYWORDS: dict[str, tuple[str, ...]] = {
    **{name: keys for name, keys in KEYWORDS.items() if not name.endswith("model")},
    "model": ("encoder",),
    "variant": ("expansion.variant",),
    "eta": ("loss.eta",),
}
"""The same for the recipe of a sparse head."""
_ELSEWHERE = {
    "lr": "rate",
    "learning_rate": "rate",
    "batch_size": "batch",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "max_epochs": "epochs",
    "num_train_epochs": "epochs",
    "random_state": "seed",
    "output_dir": "out",
    "output": "out",
    "dataset": "data",
    "train_dataset": "data",
}
"""What other libraries call them."""


def changes_of(
    keywords: Mapping[str, Any],
    sections: Mapping[str, Any],
    more: RecipeChanges | None,
    *,
    known: Mapping[str, tuple[str, ...]] = KEYWORDS,
    top: Sequence[str],
    verb: str = "train",
) -> list[Change]:
    """What a call sets over its recipe; later ones win: keywords, then sections, then `set`."""
    faults = [_unknown(name, known, top) for name in sections if name not in top]
    call = f"visir.{verb}(…, epochs=5, set={{'optimiser.rate': 1e-4}})"
    raise_faults(ConfigurationError, f"visir.{verb}", faults, hint=call)
    changes = [
        Change(tuple(key.split(".")), _plain(value), f"{name}={_short(value)}")
        for name, value in keywords.items()
        if value is not None
        for key in known[name]
    ]
    changes += [change for name, value in sections.items() for change in _section((name,), value)]
    return [*changes, *_set(more)]


def data_changes(data: str | os.PathLike[str] | Collection | TaskFile | TaskSet, name: str = "") -> list[Change]:
    """What own data sets in a recipe: the whole section, because the rest of it was about other data."""
    if isinstance(data, Collection | TaskFile | TaskSet):
        collection = data.name
        obtain = f"its pairs were given in Python: visir.train({name or 'recipe'!r}, data=…)"
    else:
        collection, obtain = os.fspath(data), ""
    place = f"data={_short(data)}"
    values = {
        "collection": collection,
        "images": None,
        "train": "train",
        "validation": "val",
        "split_by": None,
        "obtain": obtain,
    }
    return [Change(("data", key), value, place) for key, value in values.items()]


def _section(where: tuple[str, ...], value: Any) -> Iterator[Change]:
    if isinstance(value, Mapping):
        # The kind of a section (`name`, `tower`) comes first, so that the rest of it is of that kind.
        for key in sorted(value, key=lambda key: key not in ("tower", "name")):
            yield from _section((*where, str(key)), value[key])
    else:
        yield Change(where, _plain(value), f"{'.'.join(where)}={_short(value)}")


def _set(more: RecipeChanges | None) -> list[Change]:
    if more is None:
        return []
    if isinstance(more, str):
        raise ConfigurationError(f"set={more!r}: a text.", hint="set={'optimiser.rate': 1e-4}")
    if isinstance(more, Mapping):
        return [
            Change(tuple(str(key).split(".")), _plain(value), f"{key}={_short(value)}") for key, value in more.items()
        ]
    return [Change.parse(text) for text in more]


def _unknown(name: str, known: Mapping[str, tuple[str, ...]], top: Sequence[str]) -> str:
    if name in _ELSEWHERE:
        return f"unknown keyword {name!r}: it is called {_ELSEWHERE[name]!r} here"
    return f"unknown keyword {name!r}: {nearest(name, {*known, *top, 'data', 'out', 'set', 'resume', 'report'})}"


def _plain(value: Any) -> Any:
    """A path as text; lists of them too."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def _short(value: object) -> str:
    text = repr(str(value)) if isinstance(value, Path) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
