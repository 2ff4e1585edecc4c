"""`visir encode`: what it prints, keeps and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from visir.cli.encode import encode
from visir.cli.verbs import verb
from visir.errors import VisirError


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(verb(encode))
    return CliRunner().invoke(app, list(arguments))


def test_encodes_then_finds(tmp_path: Path) -> None:
    first = run("scenes:30?size=64", "--model", "pixels", "--split", "test")
    assert first.exit_code == 0, first.output
    assert "scenes: 3 images, 15 captions, split test" in first.output
    assert "images: 3 × 2,397, 3 encoded in" in first.output
    assert "kept in" in first.output
    assert "image preprocessing" in first.output
    again = run("scenes:30?size=64", "--model", "pixels", "--split", "test")
    assert "images: 3 × 2,397, found in the store" in again.output


def test_out_is_a_folder_that_loads_as_an_encoder(tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    done = run("scenes:30?size=64", "--model", "bow:64", "--modality", "text", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"visir.json", "text.npy", "text.ids.parquet"}
    assert "texts: 150 × 64, imported" in run("scenes:30?size=64", "--model", str(out)).output
    refused = run("scenes:30?size=64", "--model", "bow:64", "--out", str(out))
    assert isinstance(refused.exception, VisirError)
    assert "replace it (--replace" in str(refused.exception)
    assert run("scenes:30?size=64", "--model", "bow:32", "--out", str(out), "--replace").exit_code == 0
    assert "texts: 150 × 32, imported" in run("scenes:30?size=64", "--model", str(out)).output


def test_photos_without_captions_by_a_model_of_both(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    done = run(f"photos:{tmp_path}", "--model", "colours")
    assert done.exit_code == 0, done.output
    assert "1 image, 0 captions" in done.output and "images: 1 × " in done.output and "texts" not in done.output
    for arguments in (["--model", "colours", "--modality", "both"], ["--model", "bow"]):
        asked = run(f"photos:{tmp_path}", *arguments)
        assert isinstance(asked.exception, VisirError) and "there are no texts to encode" in str(asked.exception)


def test_broken_images_are_set_aside_by_name_when_allowed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"\x89PNG")
    stopped = run(f"photos:{tmp_path}", "--model", "pixels")
    assert isinstance(stopped.exception, VisirError)
    assert "--skip-broken" in str(stopped.exception)
    done = run(f"photos:{tmp_path}", "--model", "pixels", "--skip-broken")
    assert done.exit_code == 0, done.output
    assert "images: 2 × 2,397 usable, 1 broken, 3 read in " in done.output
    assert "set aside: image 'b.png': " in done.output
    assert "1 broken in all; they are in no gallery" in done.output
    again = run(f"photos:{tmp_path}", "--model", "pixels", "--skip-broken")
    assert "images: 2 × 2,397 usable, 1 broken, found in the store" in again.output


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--model", "pixels", "--modality", "images"), "unknown modality 'images'"),
        (("--model", "bow", "--modality", "both"), "encodes no images"),
        (("--model", "bow", "--device", "cuda"), "it computes on the CPU only"),
        (("--model", "pixels", "--split", "tset"), "did you mean 'test'?"),
    ],
)
def test_faults(arguments: tuple[str, ...], fault: str) -> None:
    refused = run("scenes:30?size=64", *arguments)
    assert isinstance(refused.exception, VisirError)
    assert fault in str(refused.exception)
