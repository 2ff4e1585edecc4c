"""Generated scenes behind the same door as everything else: "scenes:2000", "scenes:2000?seed=1&size=128"."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError, raise_faults
from visir.records import Collection, TaskFile, TaskSet

if TYPE_CHECKING:
    from visir.collections.scenes.captions import Length


def read(
    path: Path,
    *,
    seed: int = 0,
    size: int = 128,
    near_duplicates: float = 0.0,
    task: str = "",
    language: str = "en",
    length: Length = "usual",
    roles: str = "usual",
) -> Collection | TaskFile | TaskSet:
    """Make as many scenes as the "path" says; see `visir.collections.scenes.scenes`."""
    from visir.collections.scenes import choice, composed_scenes, scenes

    # Digits may be grouped in threes; "120,60,60" means three splits to somebody, not a million scenes.
    if not re.fullmatch(r"\d+|\d{1,3}([,_]\d{3})+", str(path)):
        raise CollectionError(
            f"scenes:{path}: not a number of scenes.", hint="for example scenes:2000?seed=1", code="not-number-scenes"
        )
    count = int(re.sub("[,_]", "", str(path)))
    faults = [
        f"{name} does not apply to task={task}"
        for name, value, usual in (
            ("near_duplicates", near_duplicates, 0),
            ("length", length, "usual"),
            ("roles", roles, "usual"),
        )
        if task and value != usual
    ]
    if task == "composed" and language != "en":
        faults.append(f"composed queries are in English only, not {language}")
    raise_faults(CollectionError, f"scenes:{path}", faults)
    if task == "composed":
        return composed_scenes(count, seed=seed, size=size)
    if task:
        made: TaskFile | TaskSet = getattr(choice, f"{task}_scenes")(count, seed=seed, size=size, language=language)
        return made
    return scenes(
        count, seed=seed, size=size, near_duplicates=near_duplicates, language=language, length=length, roles=roles
    )


FORMAT = Format(
    name="scenes",
    title="generated scenes with known facts",
    layout="scenes:NUMBER; nothing on disk: pictures are drawn when looked at",
    reference="visir.collections.scenes",
    sniff=lambda path: False,
    options=(
        Option("seed", "a whole number; scene i of a seed is always the same", 0, int),
        Option("size", "pixels of a side, 64 to 224", 128, int),
        Option(
            "task",
            "choice (a right and a wrong caption), winoground (two pictures, two captions of the same words), "
            "paraphrase (two right captions, one wrong), or composed (queries of a picture and a change in words)",
            "",
            one_of("choice", "winoground", "paraphrase", "composed"),
        ),
        Option("language", "of the captions: en, de, fr, es, zh, or several (en+de)", "en"),
        Option("length", "of the captions: usual, short or long", "usual", one_of("usual", "short", "long")),
        Option("roles", "which facts captions tell: usual, 0 to 5 (the roles rotate), or shared (all)", "usual"),
        Option("near_duplicates", "share of hard negatives, 0 to 0.5", 0.0, float),
    ),
    read=read,
)
