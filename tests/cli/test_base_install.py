"""Verbs without the extras that they need: a sentence with the command that installs them, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BASE = """
import importlib.machinery, sys

class Without:
    '''An installation without these packages: finders find nothing of them.'''

    def __init__(self, finder, names):
        self.finder, self.names = finder, names

    def __getattr__(self, name):  # what is installed, with its entry points
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.names else self.finder.find_spec(name, path, target)

names = set(sys.argv.pop(1).split(","))
sys.meta_path = [Without(finder, names) for finder in sys.meta_path]
from visir.cli.main import run
run()
"""
EXTRAS = (
    "torch,torchvision,transformers,safetensors,tokenizers,sklearn,pandas,faiss,duckdb,bm25s,skops,fastapi,uvicorn,"
    "qdrant_client,psycopg,pymilvus,grpc,timm,open_clip,datasets,statsmodels,onnxruntime,sentence_transformers"
)


def visir(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BASE, EXTRAS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    "arguments",
    [["show", "any"], ["run", "any"], ["compare", "any"], ["report"]],
    ids=lambda arguments: arguments[0],
)
def test_studies_say_what_they_need(arguments: list[str], tmp_path: Path) -> None:
    done = visir("papers", *arguments, folder=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "visir papers needs the package 'torch'" in done.stderr and "pip install 'visir[torch]'" in done.stderr
    assert not any(tmp_path.iterdir())


def test_the_list_of_tables_needs_nothing(tmp_path: Path) -> None:
    done = visir("papers", "list", folder=tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "thesis-table-3-2" in done.stdout and "pip install 'visir[torch]'" in done.stdout
    assert not any(tmp_path.iterdir())


def test_help_needs_nothing(tmp_path: Path) -> None:
    for arguments in ([], ["papers"], ["papers", "list"], ["papers", "run"]):
        assert visir(*arguments, "--help", folder=tmp_path).returncode == 0
