"""`visir data`: inspect, check, convert, formats."""

from __future__ import annotations

import io
import re
from pathlib import Path

import orjson
import pytest
from PIL import Image
from typer.testing import CliRunner

from refusals import refused
from visir.cli.data import app
from visir.collections import open_collection
from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.errors import CollectionError, ConfigurationError
from visir.products.opening import FORMATS as CATALOGUES

runner = CliRunner()


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    entries = [{"image": f"{n}.png", "caption": [f"picture [b]{n}[/b]", f"no. {n}"]} for n in range(3)]
    (tmp_path / "coco_test.json").write_bytes(orjson.dumps(entries))
    for n in range(3):
        stream = io.BytesIO()
        Image.new("RGB", (8, 8), (n, 0, 0)).save(stream, "PNG")
        (tmp_path / f"{n}.png").write_bytes(stream.getvalue())
    return tmp_path / "coco_test.json"


def run(*arguments: object, status: int = 0) -> str:
    result = runner.invoke(app, [str(one) for one in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.output


def test_inspect(source: Path) -> None:
    output = run("inspect", source, "--count", 1)
    assert re.search(r"coco_test\s+fingerprint [0-9a-f]{32}", output)
    assert "images: 3 of 3 found" in output
    assert re.search(r"test\D+3\D+3\D+6\D+2", output)
    assert re.search(r"picture \[b\]\d\[/b\]", output)  # a caption's brackets are no markup


def test_options_images_and_split(source: Path) -> None:
    output = run(
        "inspect", source, "--option", "captions-per-image=1", "-i", "none", "--split", "test", "-f", "annotation_list"
    )
    assert "images not looked for" in output
    assert re.search(r"test\D+3\D+0\D+3\D+1", output)
    with pytest.raises(ConfigurationError, match="'oops' has no value; write oops=VALUE"):
        run("inspect", source, "--option", "oops")
    with refused(CollectionError, "unknown option", "captions_per_imag"):
        run("inspect", source, "--option", "captions_per_imag=1")


def test_check_passes_and_fails_with_its_status(source: Path) -> None:
    output = run("check", source)
    assert "decoded 3 pictures: 3 PNG; 8–8 × 8–8 pixels" in output
    assert "no errors found (checked: ids, links between images and captions, texts; " in output
    assert "pictures decoded; not whether captions fit their pictures)\n(0 kinds of error" in output
    (source.parent / "1.png").write_bytes(b"")
    output = run("check", source, status=1)
    assert "error: pictures that cannot be read: 1" in output
    assert "image '1.png': the file is empty (0 bytes)." in output
    assert "not fit for use as it is (checked: ids, " in output
    assert "(1 kinds of error" in output
    assert "pictures were not decoded" in run("check", source, "--no-decode")


def test_check_of_something_unreadable(tmp_path: Path) -> None:
    assert "no such file or folder" in run("check", tmp_path / "nothing", status=1)


@pytest.mark.parametrize("pictures", ["copy", "link", "none"])
def test_convert(source: Path, tmp_path: Path, pictures: str) -> None:
    output = run("convert", source, tmp_path / "out", "--pictures", pictures)
    before, after = open_collection(source), open_collection(tmp_path / "out")
    assert before.fingerprint == after.fingerprint
    assert f"3 images, 6 captions, 0.0 MB, fingerprint {after.fingerprint}" in output
    run("convert", source, tmp_path / "out", "--pictures", pictures, "--replace")


def test_convert_without_any_picture(source: Path, tmp_path: Path) -> None:
    run("convert", source, tmp_path / "out", "-i", "none")
    assert open_collection(tmp_path / "out").images["path"].null_count == 3


def test_convert_of_one_split_with_judgements(tmp_path: Path, source: Path) -> None:
    (tmp_path / "Flickr8k.token.txt").write_text("a.jpg#0\tone\nb.jpg#0\ttwo\n")
    (tmp_path / "ExpertAnnotations.txt").write_text("a.jpg\tb.jpg#0\t1\t2\t3\n")
    run("convert", tmp_path / "Flickr8k.token.txt", tmp_path / "out", "-j", tmp_path / "ExpertAnnotations.txt")
    assert open_collection(tmp_path / "out").relevances == ("links", "experts", "experts-relevant")


def test_formats_lists_all_of_them() -> None:
    output = run("formats")
    for registry in (FORMATS, JUDGEMENTS, CATALOGUES):
        for name, format in registry.items():
            assert name in output
            for option in format.options:
                assert option.name in output


def test_a_task_is_inspected_and_checked(tmp_path: Path) -> None:
    (tmp_path / "corpus.csv").write_text("_id,text\nd1,a dog\nd2,a cat\n")
    (tmp_path / "queries.csv").write_text("_id,text\nq1,dog\n")
    (tmp_path / "qrels.csv").write_text("query-id,corpus-id\nq1,d1\n")
    output = run("inspect", tmp_path)
    assert "task t2t: 1 query (text), 2 documents (text), 1 judgement" in output
    assert "candidates: all documents" in output
    assert "no errors found" in run("check", tmp_path)
    (tmp_path / "qrels.csv").write_text("query-id,corpus-id\nq1,d3\n")
    output = run("check", tmp_path, status=1)
    assert "error: faults of the source: 1" in output
    assert "qrels.csv, line 2: unknown document 'd3'" in output
