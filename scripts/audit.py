"""Known vulnerabilities of everything that a lock file names: PyPI's own list, asked for each release.

    python scripts/audit.py requirements/image.txt

PyPI tells the vulnerabilities of a release at /pypi/NAME/VERSION/json. Mirrors often have /pypi/NAME/json alone, which
speaks of the newest release: it counts where that is the locked one. What could be asked of neither is listed, and
ends the script with status 2, because "nothing found" about a package that nobody looked at is worth nothing (pip-audit
skips such packages and reports success).
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPI = "https://pypi.org/pypi"


def locked(path: Path) -> dict[str, str]:
    """Name to version of every package in a lock file that a container on Linux installs."""
    packages: dict[str, str] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith(("#", "-")):
            needed = Requirement(line.partition("--hash")[0])
            if needed.marker is None or needed.marker.evaluate({"sys_platform": "linux"}):
                (version,) = needed.specifier
                packages[canonicalize_name(needed.name)] = version.version
    return packages


def vulnerabilities_of(name: str, version: str) -> list[dict[str, Any]] | None:
    """What PyPI lists of a release; None where it could not be asked."""
    for place in (f"{name}/{version}", name):
        try:
            with urllib.request.urlopen(f"{PYPI}/{place}/json", timeout=60) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError:
            continue
        if document["info"]["version"] == version:
            listed = document.get("vulnerabilities", [])
            return [vulnerability for vulnerability in listed if not vulnerability.get("withdrawn")]
    return None


def main(paths: list[Path]) -> int:
    """Print a line for each package; 1 where something is known, 2 where something could not be asked."""
    packages = {name: version for path in paths for name, version in locked(path).items()}
    unknown, lines = [], []
    for name, version in sorted(packages.items()):
        listed = vulnerabilities_of(name, version)
        if listed is None:
            unknown.append(f"{name} {version}")
        for vulnerability in listed or []:
            fixed = ", ".join(vulnerability.get("fixed_in") or []) or "none yet"
            aliases = ", ".join(vulnerability.get("aliases", []))
            lines.append(f"{name} {version}: {vulnerability['id']} ({aliases}), mended in {fixed}")
    files = ", ".join(map(str, paths))
    print(f"{files}: {len(packages)} packages, {len(lines)} known vulnerabilities, {len(unknown)} not asked")
    for line in lines:
        print(f"  {line}")
    for line in unknown:
        print(f"  {line}: PyPI says nothing of this release here; is it the newest?")
    return 1 if lines else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:] or ["requirements/image.txt"]]))
