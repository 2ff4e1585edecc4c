"""Which tasks of a profile are asked for: by ability, by source, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.studies.profile.skill import ABILITIES
from visir.studies.profile.task import ProfileTask


def wanted_names(tasks: Sequence[str] | str | None) -> tuple[str, ...]:
    """The names that are asked for, one by one; () for all."""
    listed = [tasks] if isinstance(tasks, str) else list(tasks or ())
    return tuple(name.strip() for names in listed for name in names.split(",") if name.strip())


def select(tasks: Iterable[ProfileTask], names: Sequence[str], sources: Sequence[str] = ()) -> list[ProfileTask]:
    """The tasks with the skills that are asked for."""
    given = list(tasks)
    if not names:
        return given
    read = dict.fromkeys(task.source for task in given)
    unread = [source for source in sources if source not in read]
    single = [f"{task.source}/{skill.name}" for task in given for skill in task.skills]
    known = [*ABILITIES, *read, *unread, *single]
    faults = [
        f"unknown task {name!r} ({nearest(name, known)})"
        for name in names
        if name not in known and name.partition("/")[0] not in unread
    ]
    about = f"abilities: {', '.join(ABILITIES)}; data: {', '.join([*read, *unread])}"
    about += f"; one task: {single[0]}" if single else ""
    raise_faults(ConfigurationError, "tasks", faults, hint=about)
    chosen = []
    for task in given:
        skills = tuple(
            skill for skill in task.skills if {skill.ability, task.source, f"{task.source}/{skill.name}"} & {*names}
        )
        if skills:
            chosen.append(replace(task, skills=skills))
    return chosen
