"""Logs of shops that cells need: the sessions of each found once for all studies, and what describes them kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from visir.errors import VisirError
from visir.files import json_bytes, read_bytes, read_json
from visir.fingerprint import hash_json
from visir.storage import FolderKind, locked, put, remove_folder
from visir.studies.data_requirements import data_requirement, data_requirements
from visir.studies.experiment import Experiment, ExperimentContext
from visir.training.recipe import expand

GENERATED = "generated:"
"""A generated log of so many sessions: "generated:40000"; its seed is the cell's."""
MAPPING = "mapping.toml"
_SESSIONS, _DESCRIBED, _LOCK = "log", "described/described.json", "lock"
DESCRIPTION = FolderKind("described", "a description of a log")


class SessionLogExperiment(Experiment):
    """A cell about the sessions of a log.

    - `log`: "generated:40000", a name of `data_requirements.toml`, or a file or folder
    - `mapping`: how it is read: a preset of `visir intent sessions`, or a TOML file. By default a folder as `visir
      intent generate` writes it (events/, mapping.toml) is read as it says, anything else by the preset of its name.
    """

    log: str
    mapping: str = ""

    def provenance(self, told: dict[str, Any]) -> dict[str, str]:
        """What it was that ran; `told` is the counts.json of the sessions."""
        name = f"generated log, {_count(self.log):,} sessions" if self.generated else self.log
        return {"system": self.system, "collection": name}

    def protocol(self, told: dict[str, Any]) -> dict[str, str]:
        """Rows of the card of every cell about this log."""
        declared = told["declared"]
        return {
            "log": f"{self.log}: {told['counts']['sessions']:,} sessions of {told['counts']['visitors']:,} visitors",
            "session ends": f"after {declared['idle_minutes']:g} minutes without a request",
            "hours": str(declared["zone"]),
            "engine": str(told["engine"]),
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
    """The folder of an act's log, where `visir intent sessions` wrote the folder "log".

    It is named by what is asked and, of a real log, by the names and sizes of its files: another log in the same place
    is another folder.
    """
    from visir.sessions import load_mapping, preset, sessionise
    from visir.sessions.simulator import generate

    folder = context.shared / "sessions" / _named(experiment, context)
    with context.locks.for_folder(folder), locked(folder / _LOCK, waiting=_waiting(folder), elsewhere="--out"):
        if (folder / _SESSIONS / "counts.json").is_file():
            return folder
        if experiment.generated:
            raw = folder / "raw"
            generate(raw, _count(experiment.log), seed=context.seed, replace=True)
            sessionise(raw / "events", load_mapping(raw / MAPPING), folder / _SESSIONS)
            remove_folder(raw)
        else:
            events, mapping = experiment.source()
            read = load_mapping(Path(mapping)) if mapping.endswith(".toml") else preset(mapping)
            sessionise(events, read, folder / _SESSIONS)
    return folder


def counts_of(folder: Path) -> dict[str, Any]:
    """What is known of the sessions of a folder of `sessions_of`: its counts.json."""
    found: dict[str, Any] = read_json(folder / _SESSIONS / "counts.json")
    return found


def described(folder: Path, context: ExperimentContext) -> dict[str, dict[str, Any]]:
    """Everything of thesis section 6.4, by name, as `visir intent describe` says it; worked out once."""
    from visir.sessions.describe import describe

    path = folder / _DESCRIBED
    with context.locks.for_folder(folder), locked(folder / _LOCK, waiting=_waiting(folder), elsewhere="--out"):
        if not path.is_file():
            put(path.parent, DESCRIPTION, {path.name: json_bytes(describe(folder / _SESSIONS).to_dict())})
    return {one["name"]: one for one in read_json(path)["statistics"]}


def _named(experiment: SessionLogExperiment, context: ExperimentContext) -> str:
    if experiment.generated:
        return f"generated-{_count(experiment.log)}-seed{context.seed}"
    events, mapping = experiment.source()
    files = sorted(one for one in events.rglob("*") if one.is_file()) if events.is_dir() else [events]
    said = {
        "log": experiment.log,
        "mapping": read_bytes(Path(mapping)).decode() if mapping.endswith(".toml") else mapping,
        "files": [[one.name, one.stat().st_size] for one in files],
    }
    words = re.sub(r"\W+", "-", experiment.log).strip("-")
    return f"{words}-{hash_json(said)[:10]}"


def _count(log: str) -> int:
    number = log.removeprefix(GENERATED)
    if not number.isdecimal():
        raise VisirError(f"{log!r}: {number!r} is no number of sessions.", hint="generated:40000")
    return int(number)


def _waiting(folder: Path) -> str:
    return f"{folder}: another process finds its sessions; waiting for it"
