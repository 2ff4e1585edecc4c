"""`visir models`."""

from __future__ import annotations

import json
import subprocess
import sys

from typer.testing import CliRunner

from visir.cli.main import app


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["models", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_models_are_listed_under_headings() -> None:
    lines = _run().splitlines()
    assert lines[0] == "Pictures and texts in one space: two towers"
    at = next(number for number, line in enumerate(lines) if "openai/clip-vit-base-patch32" in line)
    assert lines[at + 1].strip().startswith("image, text · dense 512 · 77 tokens · 604 MB")
    assert any(line.startswith("  pixels ") for line in lines)


def test_models_are_filtered_and_printed_as_json() -> None:
    models = json.loads(_run("--takes", "image", "--takes", "text", "--form", "multi-vector", "--json"))
    assert {model["form"] for model in models} == {"multi-vector"}
    assert {"vidore/colqwen2-v1.0-hf", "ModernVBERT/colmodernvbert-merged"} <= {model["name"] for model in models}


def test_one_model_with_all_its_facts() -> None:
    output = _run("google/siglip2-base-patch16-224")
    for line in (
        "licence                   apache-2.0",
        "dimension                 768",
        "longest text              64 tokens",
        "facts from                mteb",
    ):
        assert line in output


def test_the_list_imports_no_model() -> None:
    script = (
        "import sys; sys.argv = ['visir', 'models']\n"
        "from visir.cli.main import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'sentence_transformers', 'open_clip'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
