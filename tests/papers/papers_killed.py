"""Run a toy study with one job: what a test kills. Arguments: the study's file, the folder of all studies."""

from __future__ import annotations

import sys
from pathlib import Path

from visir_papers.cells import run_study as run
from visir_papers.study import read_study

if __name__ == "__main__":
    run(read_study(sys.argv[1]), "toy", "smoke", Path(sys.argv[2]), jobs=1)
