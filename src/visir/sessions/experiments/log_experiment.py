"""Logs of shops that cells of studies need: sessions and descriptions are computed once for all studies."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError, raise_faults
from visir.files import json_bytes, read_bytes
from visir.fingerprint import hash_json
from visir.options import split_options
from visir.storage import FolderKind, locked, put, read_written_json, remove_folder
from visir.studies.data_requirements import data_requirement, data_requirements
from visir.studies.experiment import Experiment, ExperimentContext
from visir.training.recipe import expand

if TYPE_CHECKING:
    from visir.sessions.description.jackknife import Values

GENERATED = "generated:"
"""A generated log of so many sessions: "generated:40000"; its seed is the cell's. Chances of the shop may follow:
"generated:40000?logs_in_at_checkout=0.7"."""
_CHANCES = ("identified", "logs_in", "logs_in_at_checkout")
MAPPING = "mapping.toml"
_SESSIONS, _LOCK = "log", "lock"
_DESCRIBED, _LEFT_OUT = "described/described.json", "described/leave-one-out.json"
DESCRIPTION = FolderKind("described", "a description of a log")


class SessionLogExperiment(Experiment):
    """A cell of a study about the sessions of a log."""

    # "generated:40000" (with `?logs_in_at_checkout=0.7`, or another chance of `Shop`), a name of
    # `data_requirements.toml`, or a file or folder.
    log: str
    # How it is read: a preset of `visir sessions make`, or a TOML file. By default a folder that `visir intent
    # generate` wrote (events/, mapping.toml) is read by its own mapping, anything else by the preset of its name.
    mapping: str = ""

    def provenance(self, counts: dict[str, Any]) -> dict[str, str]:
        """What ran, for the card of the cell."""
        name = f"generated log, {_described(self.log)}" if self.generated else self.log
        return {"system": self.system, "collection": name}

    def protocol(self, counts: dict[str, Any]) -> dict[str, str]:
        """Rows of the card of every cell about this log."""
        declared, sizes = counts["declared"], counts["counts"]
        return {
            "log": f"{self.log}: {sizes['sessions']:,} sessions of {sizes['visitors']:,} visitors",
            "session ends": f"after {declared['idle_minutes']:g} minutes without a request",
            "hours": str(declared["zone"]),
            "engine": str(counts["engine"]),
        }

    @property
    def generated(self) -> bool:
        """Whether the log is a generated one."""
        return self.log.startswith(GENERATED)

    def source(self) -> tuple[Path, str]:
        """Where its events are, and its mapping: the path of a TOML file, or the name of a preset."""
        path = Path(expand(data_requirement(self.log).path if self.log in data_requirements() else self.log))
        if self.mapping:
            return path, expand(self.mapping)
        if (path / MAPPING).is_file():
            return path / "events", str(path / MAPPING)
        return path, self.log


def sessions_of(experiment: SessionLogExperiment, context: ExperimentContext) -> Path:
    """The folder of an experiment's log; `visir sessions make` wrote its subfolder "log"."""
    # It is named by the log and the mapping and, of a real log, by the names and sizes of its files: another log in the
    # same place has another folder.
    from visir.sessions import load_mapping, preset, sessionise
    from visir.sessions.simulator import Shop, generate

    folder = context.shared / "sessions" / _folder_name(experiment, context)
    with context.locks.for_folder(folder), locked(folder / _LOCK, waiting=_waiting(folder), elsewhere="--out"):
        if (folder / _SESSIONS / "counts.json").is_file():
            return folder
        if experiment.generated:
            raw = folder / "raw"
            count, chances = _generated(experiment.log)
            generate(raw, count, seed=context.seed, shop=replace(Shop(), **chances), replace=True)
            sessionise(raw / "events", load_mapping(raw / MAPPING), folder / _SESSIONS)
            remove_folder(raw)
        else:
            events, mapping = experiment.source()
            read = load_mapping(Path(mapping)) if mapping.endswith(".toml") else preset(mapping)
            sessionise(events, read, folder / _SESSIONS)
    return folder


def counts_of(folder: Path) -> dict[str, Any]:
    """The counts.json of a folder of `sessions_of`."""
    counts: dict[str, Any] = read_written_json(folder / _SESSIONS / "counts.json")
    return counts


def description_of(folder: Path, context: ExperimentContext) -> dict[str, dict[str, Any]]:
    """Everything of thesis section 6.4, by name, as `visir sessions describe` writes it; computed once."""
    _describe_once(folder, context)
    return {statistic["name"]: statistic for statistic in read_written_json(folder / _DESCRIBED)["statistics"]}


def left_out_of(folder: Path, context: ExperimentContext) -> list[Values]:
    """The same values without each group of visitors (`leave_one_out`); computed once."""
    _describe_once(folder, context)
    values: list[Values] = read_written_json(folder / _LEFT_OUT)["groups"]
    return values


def _describe_once(folder: Path, context: ExperimentContext) -> None:
    from visir.sessions.description import describe
    from visir.sessions.description.jackknife import leave_one_out

    with context.locks.for_folder(folder), locked(folder / _LOCK, waiting=_waiting(folder), elsewhere="--out"):
        if not (folder / _LEFT_OUT).is_file():
            described, left_out = describe(folder / _SESSIONS).to_dict(), {"groups": leave_one_out(folder / _SESSIONS)}
            contents = {Path(_DESCRIBED).name: json_bytes(described), Path(_LEFT_OUT).name: json_bytes(left_out)}
            put((folder / _DESCRIBED).parent, DESCRIPTION, contents)


def _folder_name(experiment: SessionLogExperiment, context: ExperimentContext) -> str:
    if experiment.generated:
        count, chances = _generated(experiment.log)
        shop = "".join(f"-{name}-{value:g}" for name, value in sorted(chances.items()))
        return f"generated-{count}{shop}-seed{context.seed}"
    events, mapping = experiment.source()
    files = sorted(file for file in events.rglob("*") if file.is_file()) if events.is_dir() else [events]
    identity = {
        "log": experiment.log,
        "mapping": read_bytes(Path(mapping)).decode() if mapping.endswith(".toml") else mapping,
        "files": [[file.name, file.stat().st_size] for file in files],
    }
    words = re.sub(r"\W+", "-", experiment.log).strip("-")
    return f"{words}-{hash_json(identity)[:10]}"


def _generated(log: str) -> tuple[int, dict[str, Any]]:
    """How many sessions a generated log has, and the chances of its shop that are not the default."""
    number, chances = split_options(log.removeprefix(GENERATED), _CHANCES, error=VisirError)
    faults = [] if number.isdecimal() else [f"{number!r} is no number of sessions"]
    values: dict[str, Any] = {}
    for name, text in chances.items():
        try:
            values[name] = float(text)
        except ValueError:
            faults.append(f"{name}={text}: no number")
    raise_faults(VisirError, log, faults, hint="generated:40000, generated:40000?logs_in_at_checkout=0.7")
    return int(number), values


def _described(log: str) -> str:
    """A generated log in words."""
    count, chances = _generated(log)
    return ", ".join([f"{count:,} sessions", *(f"{name} {value:g}" for name, value in chances.items())])


def _waiting(folder: Path) -> str:
    return f"{folder}: another process finds its sessions; waiting for it"
