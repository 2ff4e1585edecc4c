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
    found: dict[str, str] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith(("#", "-")):
            needed = Requirement(line.partition("--hash")[0])
            if needed.marker is None or needed.marker.evaluate({"sys_platform": "linux"}):
                (version,) = needed.specifier
                found[canonicalize_name(needed.name)] = version.version
    return found


def told(name: str, version: str) -> list[dict[str, Any]] | None:
    """What PyPI lists of a release; None where it could not be asked."""
    for place in (f"{name}/{version}", name):
        try:
            with urllib.request.urlopen(f"{PYPI}/{place}/json", timeout=60) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError:
            continue
        if said["info"]["version"] == version:
            return [one for one in said.get("vulnerabilities", []) if not one.get("withdrawn")]
    return None


def main(paths: list[Path]) -> int:
    """Print a line for each package; 1 where something is known, 2 where something could not be asked."""
    packages = {name: version for path in paths for name, version in locked(path).items()}
    unknown, known = [], []
    for name, version in sorted(packages.items()):
        listed = told(name, version)
        if listed is None:
            unknown.append(f"{name} {version}")
        for one in listed or []:
            fixed = ", ".join(one.get("fixed_in") or []) or "none yet"
            known.append(f"{name} {version}: {one['id']} ({', '.join(one.get('aliases', []))}), mended in {fixed}")
    named = ", ".join(map(str, paths))
    print(f"{named}: {len(packages)} packages, {len(known)} known vulnerabilities, {len(unknown)} not asked")
    for line in known:
        print(f"  {line}")
    for line in unknown:
        print(f"  {line}: PyPI says nothing of this release here; is it the newest?")
    return 1 if known else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:] or ["requirements/image.txt"]]))
