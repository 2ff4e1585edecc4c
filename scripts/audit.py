"""Known vulnerabilities of everything that an extra installs: PyPI's own list, asked for each installed release.

    python scripts/audit.py serve

PyPI tells the vulnerabilities of a release at /pypi/NAME/VERSION/json. Mirrors often have /pypi/NAME/json alone, which
speaks of the newest release: it counts where that is the installed one. What could be asked of neither is listed, and
ends the script with status 2, because "nothing found" about a package that nobody looked at is worth nothing (pip-audit
skips such packages and reports success).
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPI = "https://pypi.org/pypi"


def installed(extra: str) -> dict[str, str]:
    """Name to version of what `visir[extra]` needs, and of what that needs."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [("visir", frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            about = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed: pip install 'visir[{extra}]'") from None
        found[name] = about.version
        for line in about.requires or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in extras or {""}):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    del found["visir"]
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


def main(extra: str) -> int:
    """Print a line for each package; 1 where something is known, 2 where something could not be asked."""
    packages = installed(extra)
    unknown, known = [], []
    for name, version in sorted(packages.items()):
        listed = told(name, version)
        if listed is None:
            unknown.append(f"{name} {version}")
        for one in listed or []:
            fixed = ", ".join(one.get("fixed_in") or []) or "none yet"
            known.append(f"{name} {version}: {one['id']} ({', '.join(one.get('aliases', []))}), mended in {fixed}")
    print(f"visir[{extra}]: {len(packages)} packages, {len(known)} known vulnerabilities, {len(unknown)} not asked")
    for line in known:
        print(f"  {line}")
    for line in unknown:
        print(f"  {line}: PyPI says nothing of this release here; is it the newest?")
    return 1 if known else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "serve"))
