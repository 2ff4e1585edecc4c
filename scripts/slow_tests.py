"""Which tests are slow: they run in CI and with `make test-slow`, not in `make test`.

    .venv/bin/pytest -m 'not nightly' --durations=0 --durations-min=0 -vv > times.txt
    python scripts/slow_tests.py times.txt      # writes tests/slow.txt anew

A test is slow from `LIMIT` seconds of a call on. One that runs a verb from end to end is quick up to `OF_VERBS`: of
every verb `make test` tries something. A function whose cases are mostly slow stands there once, without them.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "slow.txt"
LIMIT, OF_VERBS = 1.0, 8.0
_LINE = re.compile(r"([0-9.]+)s call +(\S.*)")
_VERBS = re.compile(r"tests/cli/|_verbs?\.py|tests/test_readme")


def slow(seconds: dict[str, float]) -> list[str]:
    """The lines of the list, from node id to the seconds of its call."""
    functions: dict[str, dict[str, float]] = defaultdict(dict)
    for node, taken in seconds.items():
        functions[node.partition("[")[0]][node] = taken
    lines: list[str] = []
    for function, cases in functions.items():
        limit = OF_VERBS if _VERBS.search(function) else LIMIT
        over = [node for node, taken in cases.items() if taken >= limit]
        lines += [function] if len(over) > len(cases) / 2 else over
    return sorted(lines)


def main() -> None:
    """Read what pytest printed, and write the list."""
    matches = map(_LINE.match, Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    seconds = {match[2]: float(match[1]) for match in matches if match}
    LIST.write_text("".join(f"{line}\n" for line in slow(seconds)), encoding="utf-8")
    print(f"{LIST.relative_to(ROOT)}: {len(slow(seconds)):,} of {len(seconds):,} that were timed")


if __name__ == "__main__":
    main()
