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
_MOST_OF_OTHERS = 1e9
_MOST_SHARES = 500
"""Of one row, of which it is looked whether they have one unit: no table prints a tenth of them."""
_WORDS = {"t2i": ("t2i", r"text[\W_]*(?:to|2|→|>)[\W_]*image"), "i2t": ("i2t", r"image[\W_]*(?:to|2|→|>)[\W_]*text")}
_DIRECTIONS = {task: re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])") for task, words in _WORDS.items()}
_RETRIEVED = {"image_retrieval_": "t2i", "text_retrieval_": "i2t"}
"""What is retrieved, as the benchmark of OpenCLIP names it: a text finds images."""
_SIMILARITY = re.compile(r"(?:cosine|dot|euclidean|manhattan)_")
"""Before a measure, as sentence-transformers names it."""
READ = "R@1, Recall@1, recall_at_1, hit@1, ndcg_at_10, t2i R@1, text_to_image_recall@1, cosine_accuracy@1"
"""Some of the names that are read, for a hint."""


def is_of_hub(path: Path) -> bool:
    """Whether a path is the folder of a model, its card, or a file of results."""
    if path.is_dir():
        return (path / RESULTS).is_dir() or (path / "README.md").is_file()
    return path.suffix.lower() in (".md", ".yaml", ".yml") and path.is_file()


@dataclass(frozen=True)
class _Place:
    """What keeps the values of one data set apart from those of another."""

    system: str
    dataset: str
    apart: tuple[str, ...] = ()  # its type, revision, config and split, and the name of the task without its direction


@dataclass
class _Tally:
    """The values found so far, and what was left out."""

    values: dict[_Place, dict[str, dict[str, float]]] = field(default_factory=dict)
    unnamed: int = 0  # values without the name of a measure that visir knows
    broken: int = 0  # entries of another form, or whose value is no number
    beyond: int = 0  # values that their measure cannot have
    twice: int = 0  # values that stand there more than once
    mixed: int = 0  # values of rows whose shares have two units

    def add(self, place: _Place, task: str, label: str, value: Any) -> None:
        """Take a value, the first of each name."""
        number = _number(value)
        if not math.isfinite(number):
            self.broken += 1
        elif not 0 <= number <= _most(label):
            self.beyond += 1
        else:
            part = self.values.setdefault(place, {}).setdefault(task, {})
            self.twice += label in part
            part.setdefault(label, number)

    def leave_out_mixed(self) -> None:
        """Leave out the shares of each row where some are of 1 and some of 100: which of them is right is not known."""
        for place, parts in list(self.values.items()):
            shares = [(task, label, match) for task, part in parts.items() for label in part if (match := _at(label))]
            numbers = [(k, parts[task][label]) for task, label, k in shares[:_MOST_SHARES]]
            if any(_of_two_units(*low, *high) for low in numbers for high in numbers):
                self.mixed += len(shares)
                for task, label, _ in shares:
                    del parts[task][label]
                self.values[place] = {task: part for task, part in parts.items() if part}
        self.values = {place: parts for place, parts in self.values.items() if parts}


def _number(value: Any) -> float:
    """A value as a number; infinite for what is none, and for a whole number of hundreds of digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.inf
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _most(label: str) -> float:
    """The greatest value that a measure can have: 100, but for a rank and a sum of percentages."""
    named = read_measure(label)
    return 100 if isinstance(named, Named) and named.measure.unit == "fraction" else _MOST_OF_OTHERS


def _at(label: str) -> int:
    """The k of a recall or hit at k, 0 for another measure."""
    match = re.fullmatch(r"(?:r|recall|hit)@(\d{1,9})", label.lower())
    return int(match[1]) if match else 0


def _of_two_units(k: int, low: float, m: int, high: float) -> bool:
    """Whether a recall at k is a fraction of 1, and one at m a percentage."""
    # At chance recall grows as k does, 0.1, 0.5, 1.0 %; above it more slowly. So 0.58 beside 80.1 is not 0.58 %.
    return 0 < low <= 1 < high and high > 4 * max(1, m / k) * low


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
    tally.leave_out_mixed()
    left = {
        "without the name of a measure that visir knows": tally.unnamed,
        "of another form": tally.broken,
        "that their measure cannot have (a share is from 0 to 100)": tally.beyond,
        "of rows that mix fractions of 1 with percentages": tally.mixed,
        "named twice, of which the first was taken": tally.twice,
    }
    notes = [f"{counted(count, 'values')} {why}" for why, count in left.items() if count]
    if not tally.values:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise VisirError(
            f"{path}: no published value of a search{why}.",
            hint=f"a model card has them under model-index, as visir export writes it; names that are read: {READ}",
            code="no-values-of-hub",
        )
    rows = [row for part in tally.values.values() for row in part.values()]
    if any(label.lower().startswith("recall@") for row in rows for label in row):
        notes.append(
            "recall@k of a card may be the share of the right answers that were found, "
            "which is a share of queries only where each has one right answer"
        )
    alike: dict[tuple[str, str], list[_Place]] = {}
    for place in tally.values:
        alike.setdefault((place.system, place.dataset), []).append(place)
    values: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}
    columns = {
        name: [len(set(column)) > 1 for column in zip(*(place.apart for place in places), strict=True)]
        for name, places in alike.items()
    }
    for place, part in tally.values.items():
        differing = zip(place.apart, columns[place.system, place.dataset], strict=True)
        differs = [own for own, is_other in differing if own and is_other]
        called = base = ", ".join([place.dataset, *differs])
        number = 2
        while (place.system, called) in values:
            called, number = f"{base} ({number})", number + 1
        values[place.system, called] = part
    return f"Results of {name}", values, tuple(notes)


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


def _direction(text: str) -> str:
    """The direction that a name says; "" where it says none, or both."""
    directions = [task for task, words in _DIRECTIONS.items() if words.search(text.lower())]
    return directions[0] if len(directions) == 1 else ""


def _without_direction(text: str) -> str:
    for words in _DIRECTIONS.values():
        text = words.sub(" ", text.lower())
    words_left = re.sub(r"[\W_]+", " ", text).strip()
    return "" if words_left in ("retrieval", "search") else words_left


def _label(*names: str) -> tuple[str, str]:
    """(direction, label) of the first name that is one of a measure, as visir reads it ("ndcg_at_10" is "ndcg@10")."""
    for name in names:
        label, task = re.sub(r"_at_(?=\d+$)", "@", name.strip()), ""
        for prefix, direction in _RETRIEVED.items():
            if label.lower().replace(" ", "_").startswith(prefix):
                label, task = label[len(prefix) :], direction
        for direction, words in _WORDS.items():
            if match := re.match(rf"(?:{'|'.join(words)})[\W_]+", label.lower()):
                label, task = label[match.end() :], direction
        if task:  # of images and texts, where papers call a hit so
            label = re.sub(r"^recall@", "R@", label, flags=re.IGNORECASE)
        if match := _SIMILARITY.match(label.lower().replace(" ", "_")):
            label = label[match.end() :].lower()
        label = re.sub(r"^accuracy@", "hit@", label, flags=re.IGNORECASE)
        if label == "rsum" or isinstance(read_measure(label), Named):
            return task or _direction(" ".join(names)), label
    return "", ""


def _read_card(head: Any, name: str, tally: _Tally, datasets: set[str]) -> str:
    """Take the values of `model-index`; the name of the model."""
    models = list(_mappings(head.get("model-index"))) if isinstance(head, dict) else []
    for model in models:
        system = _text(model.get("name")) or name
        for result in _mappings(model.get("results")):
            dataset, task = _part(result, "dataset"), _part(result, "task")
            called = _text(dataset.get("name")) or _text(dataset.get("type"))
            datasets |= {_text(dataset.get("type")), called}
            config, title, kind = _text(dataset.get("config")), _text(task.get("name")), _text(task.get("type"))
            of_task = next(filter(None, map(_direction, (config, title, kind))), "")
            listed = [_text(dataset.get(key)) for key in ("type", "revision", "split")]
            for metric in _mappings(result.get("metrics")):
                direction, label = _label(_text(metric.get("name")), _text(metric.get("type")))
                if label:
                    searched = config if config in ("i2t", "t2i") else direction or of_task or config or kind
                    # A config that is the name of the task keeps its values apart already.
                    further = ("" if searched == config else _without_direction(config), _without_direction(title))
                    tally.add(_Place(system, called, (*listed, *further)), searched, label, metric.get("value"))
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
        label = _label(*filter(None, own.groups()))[1] if own else ""
        if not (called and task):
            tally.broken += 1
        elif called in known:
            continue
        elif not label:
            tally.unnamed += 1
        else:
            apart = ("", _text(dataset.get("revision")), "", "", "")
            tally.add(_Place(system, called, apart), task, label, entry.get("value"))
