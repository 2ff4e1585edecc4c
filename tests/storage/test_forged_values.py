"""A folder may come from anybody, with every hash right: each value of its files in turn is exchanged for odd ones, and
whoever reads or reports it gives an answer or an error of visir's that names the folder."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from test_altered_files import KINDS

import visir
from refusals import refused
from visir.errors import VisirError
from visir.storage import MANIFEST
from visir.storage.manifest import FileRecord, Manifest

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**15,
    1.5,
    "",
    "../../../etc/passwd",
    "\x1b[31mred",
    [],
    [1],
    {},
    {"a": 1},
    [[[]]],
    "9" * 400,
)
TRIES = 30


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(min(len(value), 3)) if isinstance(value, list) else ():
        yield from leaves(value[key], (*path, key))


def exchanged(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    value = inner = copy.deepcopy(value)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return value


def resigned(path: Path, content: Any = None) -> None:
    """A manifest with the hashes of its files as they are now."""
    old = Manifest.from_bytes(path.read_bytes(), str(path))
    found = {name: path.parent / name for name in old.files}
    files = {name: FileRecord.of(file) if file.is_file() else old.files[name] for name, file in found.items()}
    content = old.content if content is None else content
    path.write_bytes(Manifest(old.kind, content, files, old.generation, old.version).to_bytes())


def written(file: Path, value: Any) -> None:
    """The file with these values, and the manifest of its folder with the right hashes."""
    if file.name == MANIFEST:
        resigned(file, content=value)
    else:
        file.write_bytes(orjson.dumps(value))
    for folder in file.parents:
        if (folder / MANIFEST).is_file():
            resigned(folder / MANIFEST)


def values_of(file: Path) -> Any:
    values = orjson.loads(file.read_bytes())
    return values["content"] if file.name == MANIFEST else values


@pytest.mark.parametrize("name", sorted(KINDS))
def test_odd_values_with_right_hashes_are_answered_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in KINDS[name].packages:
        pytest.importorskip(package)
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    sound = tmp_path / "sound" / name
    sound.parent.mkdir()
    KINDS[name].write(sound)
    files = [file for file in sorted(sound.rglob("*.json")) if file.is_file()]
    places = [(file, path) for file in files for path in leaves(values_of(file))]
    cases = [(*place, odd) for place in places for odd in ODD]
    tried = random.Random(0).sample(cases, min(TRIES, len(cases)))
    assert tried or name in ("pictures", "tokens", "stress"), "there are values to exchange"
    for file, path, odd in tried:
        forged = tmp_path / "forged" / name
        shutil.copytree(sound, forged)
        copied = forged / file.relative_to(sound)
        written(copied, exchanged(values_of(copied), path, odd))
        for use in (visir.open, visir.report):
            try:
                use(forged)
            except VisirError:
                pass  # anything else fails here
            except Exception as fault:
                pytest.fail(f"{use.__name__} of {file.name} with {path} = {odd!r}: {type(fault).__name__}: {fault}")
        shutil.rmtree(forged.parent)


@pytest.mark.parametrize(
    ("file", "path", "odd"),
    [
        ("result.json", ("aggregates",), None),
        ("result.json", ("aggregates", "i2t"), 10**15),
        ("result.json", ("aggregates", "t2i", "hit@1"), "/etc/passwd"),
        ("result.json", ("versions",), [1]),
    ],
)
def test_values_of_a_result_are_numbers(file: str, path: tuple[str, ...], odd: Any, tmp_path: Path) -> None:
    KINDS["result"].write(tmp_path / "result")
    forged = tmp_path / "result" / file
    written(forged, exchanged(values_of(forged), path, odd))
    with pytest.raises(VisirError, match=r"result\.json: damaged"):
        visir.open(tmp_path / "result")


def test_an_option_that_a_folder_does_not_take_is_no_damage(tmp_path: Path) -> None:
    KINDS["result"].write(tmp_path / "result")
    with refused(VisirError, "takes no language_column=", code="folder-visir-made-takes", hint=False):
        visir.open(tmp_path / "result", language_column="x")
