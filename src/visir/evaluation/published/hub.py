"""Published values as the Hugging Face Hub has them: the head of a model card, and `.eval_results`, read as data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visir.display import counted, cut
from visir.errors import ConfigurationError, VisirError, require
from visir.evaluation.measures import Named, read_measure
from visir.files import read_text
from visir.storage.disk import files_below

RESULTS = ".eval_results"
_MOST_BYTES = 2_000_000
"""Of a file: the largest cards of the Hub, with the results of hundreds of tasks, are a tenth of it."""
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_OWN_NOTE = re.compile(r"([^;\s]+)(?: is ([^;\s]+))?;.*; visir [^;]+, protocol [0-9a-f]{12}", re.DOTALL)
"""What `visir export` notes beside a number: first what it is."""
_LONGEST_NOTE = 5_000


def is_of_hub(path: Path) -> bool:
    """Whether a path is the folder of a model, its card, or a file of results."""
    if path.is_dir():
        return (path / RESULTS).is_dir() or (path / "README.md").is_file()
    return path.suffix.lower() in (".md", ".yaml", ".yml") and path.is_file()


@dataclass
class _Tally:
    """The values found so far, by system and data set, and what was left out."""

    values: dict[tuple[str, str, str], dict[str, dict[str, float]]] = field(default_factory=dict)
    unnamed: int = 0  # values without the name of a measure that visir knows
    broken: int = 0  # entries of another form, or whose value is no number
    twice: int = 0  # values that stand there more than once

    def add(self, system: str, dataset: str, split: str, task: str, label: str, value: Any) -> None:
        """Take a value, the first of each name."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.broken += 1
            return
        part = self.values.setdefault((system, dataset, split), {}).setdefault(task, {})
        self.twice += label in part
        part.setdefault(label, float(value))


Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]
"""By (system, collection): the values by task and label."""


def read_of_hub(path: Path) -> tuple[str, Values, tuple[str, ...]]:
    """(title, values, notes) of a model card, of a file of `.eval_results`, or of a folder with both."""
    # The Hub does not say whether 0.6 is a fraction or a percentage, nor what a value of `.eval_results` measures: that
    # has a name only where its note gives one, as those of visir do.
    require("yaml", extra="hub", purpose="results of the Hub")
    tally, name, datasets = _Tally(), path.resolve().name if path.is_dir() else path.stem, set[str]()
    card = path / "README.md" if path.is_dir() else path
    if card.suffix.lower() == ".md" and card.is_file():
        name = _read_card(_content(card), name, tally, datasets)
    listed = [path] if path.is_file() and card.suffix.lower() != ".md" else []
    if path.is_dir() and (path / RESULTS).is_dir():
        inside = sorted(files_below(path / RESULTS))
        listed = [path / RESULTS / file for file in inside if Path(file).suffix.lower() in (".yaml", ".yml")]
    for file in listed:
        _read_entries(_content(file), name, tally, datasets)
    left = {
        "without the name of a measure that visir knows": tally.unnamed,
        "of another form": tally.broken,
        "named twice, of which the first was taken": tally.twice,
    }
    notes = tuple(f"{counted(count, 'values')} {why}" for why, count in left.items() if count)
    if not tally.values:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise VisirError(
            f"{path}: no published value of a search{why}.",
            hint="a model card has them under model-index, as visir export writes it",
            code="no-values-of-hub",
        )
    splits: dict[str, set[str]] = {}
    for _, dataset, split in tally.values:
        splits.setdefault(dataset, set()).add(split)
    values = {}
    for (system, dataset, split), part in tally.values.items():
        values[system, f"{dataset}, {split}" if len(splits[dataset]) > 1 and split else dataset] = part
    return f"Results of {name}", values, notes


def _content(path: Path) -> Any:
    """What a file of YAML, or the head of a card, says. Only plain values: nothing in it is called."""
    import yaml

    if path.stat().st_size > _MOST_BYTES:
        raise ConfigurationError(
            f"{path}: {path.stat().st_size:,} bytes are no list of results.",
            hint="name the card or a file of .eval_results",
            code="hub-too-large",
        )
    text = read_text(path)
    if path.suffix.lower() == ".md":
        match = _HEAD.match(text)
        text = match[1] if match else ""
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        reason = cut(" ".join(str(fault).split()), 200)
        raise ConfigurationError(
            f"{path}: not readable as YAML: {reason}", hint="mend the file, or fetch it again", code="hub-not-yaml"
        ) from fault


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """The mappings of a list; nothing of what is no list."""
    return (item for item in (value if isinstance(value, list) else []) if isinstance(item, dict))


def _part(value: Any, name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str:
    return cut(value, 200) if isinstance(value, str) else ""


def _label(*names: str) -> str:
    """The first name that is one of a measure, as visir reads it ("ndcg_at_10" is "ndcg@10"); "" for none."""
    for name in names:
        label = re.sub(r"_at_(?=\d+$)", "@", name)
        if label == "rsum" or isinstance(read_measure(label), Named):
            return label
    return ""


def _read_card(head: Any, name: str, tally: _Tally, datasets: set[str]) -> str:
    """Take the values of `model-index`; the name of the model."""
    models = list(_mappings(head.get("model-index"))) if isinstance(head, dict) else []
    for model in models:
        system = _text(model.get("name")) or name
        for result in _mappings(model.get("results")):
            dataset, task = _part(result, "dataset"), _part(result, "task")
            called = _text(dataset.get("name")) or _text(dataset.get("type"))
            datasets |= {_text(dataset.get("type")), called}
            task_name = _text(dataset.get("config")) or _text(task.get("type"))
            for metric in _mappings(result.get("metrics")):
                if label := _label(_text(metric.get("name")), _text(metric.get("type"))):
                    tally.add(system, called, _text(dataset.get("split")), task_name, label, metric.get("value"))
                else:
                    tally.unnamed += 1
    return next((_text(model.get("name")) for model in models if _text(model.get("name"))), name)


def _read_entries(entries: Any, system: str, tally: _Tally, known: set[str]) -> None:
    """Take the values of a file of `.eval_results`; of a data set that the card lists, the card has them already."""
    if not isinstance(entries, list):
        tally.broken += 1
        return
    for entry in entries:
        entry = entry if isinstance(entry, dict) else {}
        dataset, note = _part(entry, "dataset"), entry.get("notes")
        called, task = _text(dataset.get("id")), _text(dataset.get("task_id"))
        own = _OWN_NOTE.fullmatch(note[:_LONGEST_NOTE].strip()) if isinstance(note, str) else None
        label = _label(*filter(None, own.groups())) if own else ""
        if not (called and task):
            tally.broken += 1
        elif called in known:
            continue
        elif not label:
            tally.unnamed += 1
        else:
            tally.add(system, called, "", task, label, entry.get("value"))
