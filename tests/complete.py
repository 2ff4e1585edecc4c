"""Tests that skip where every part was set up: with `VISIR_TESTS=complete` a skip is a failure, unless it is listed.

CI sets it (`.ci/run`): a part that is missing there would stay unnoticed. On other machines tests skip, and say how to
get the part.
"""

from __future__ import annotations

import os
import re

import pytest

ALLOWED = {
    r"needs CUDA|there is a GPU": "the machines of CI have no GPU",
    r"VISIR_DATA|no log at |no manifest|no MNIST|no authors' runs": "data that we may not pass on",
    r"this file system refuses such names|there is no second file system": "a property of the machine",
    r"needs root|only root gives files away|root may look into every folder": "a property of the user",
    r"may not mount|nothing can be mounted|may mount nothing": "containers may not mount",
    r"no /dev/full|this system has no poll|no pseudo-terminals|RLIMIT_FSIZE is POSIX": "another system",
    r"peaks of memory are read from /proc|needs a C compiler, and Linux": "another system",
    r"the cells of PyTerrier run where it is installed": "a peer on one page of the documents, with a stack of its own",
    r"no Python with colpali-engine": "a peer that needs another transformers; its scores are in colpali_scores.json",
    r"nothing is installed here in its locked version": "the lock files are for another version of Python",
    r"this Pillow does not write it": "a property of Pillow's wheel",
}
"""Reasons for which a test may skip in CI: pattern of the reason → why it is allowed."""


def missing_part(reason: str) -> bool:
    """Whether a skip says that a part was not set up.

    Example:
        >>> missing_part("no Chromium here"), missing_part("needs CUDA")
        (True, False)
    """
    also = os.environ.get("VISIR_TESTS_WITHOUT", "")  # parts that this machine cannot have, as a pattern
    return not any(re.search(pattern, reason) for pattern in (*ALLOWED, *([also] if also else [])))


class MissingParts:
    """A plugin of pytest that collects skips for want of a part, and fails the session when there are any."""

    def __init__(self) -> None:
        self.skips: dict[str, int] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            place, line, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, report.longrepr)
            reason = str(reason).removeprefix("Skipped: ")
            if missing_part(reason):
                said = f"{place}:{line}: {reason}"
                self.skips[said] = self.skips.get(said, 0) + 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skips and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skips:
            terminalreporter.section("skipped for want of a part (VISIR_TESTS=complete)")
            for line, count in sorted(self.skips.items()):
                terminalreporter.write_line(f"[{count}] {line}", red=True)
            terminalreporter.write_line("set the parts up: python scripts/parts.py; what may skip: tests/complete.py")
