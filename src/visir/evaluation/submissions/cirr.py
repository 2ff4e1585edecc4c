"""CIRR's submissions: two files, {pair id: [50 images]} for recall and {pair id: [3 images]} for recall_subset."""

from __future__ import annotations

from typing import Any

from visir.evaluation.submissions.base import SubmissionFormat, SubmissionPart

VERSION = "rc2"


def _recall(answers: dict[str, list[str]]) -> dict[str, Any]:
    return {"version": VERSION, "metric": "recall", **answers}


def _subset(answers: dict[str, list[str]]) -> dict[str, Any]:
    return {"version": VERSION, "metric": "recall_subset", **answers}


FORMAT = SubmissionFormat(
    name="cirr",
    title="CIRR",
    parts=(SubmissionPart("it2i", 50, "recall", _recall), SubmissionPart("subset", 3, "recall_subset", _subset)),
    where="https://cirr.cecs.anu.edu.au/",
    reference="https://github.com/Cuberick-Orion/CIRR, Test-split_server.md",
)
