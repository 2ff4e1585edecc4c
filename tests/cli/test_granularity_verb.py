"""`visir granularity` from files to tables, JSON, CSV, Parquet and page."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from manifests import write_json
from verbs import say
from visir.cli.stress import granularity
from visir.files import read_json

pytest.importorskip("HanTa")

PLAIN = ["a dog runs", "a dog on a lawn", "a man sits", "some men in a boat"]
FINE = ["a big brown dog runs", "a small dog on a green lawn", "an old man sits", "two young men in a red boat"]


def written(path: Path, texts: list[str], images: tuple[str, ...] = ("p1.jpg", "p2.jpg")) -> Path:
    write_json(path, [{"image": one, "caption": texts[2 * at : 2 * at + 2]} for at, one in enumerate(images)])
    return path


def test_one_collection(tmp_path: Path) -> None:
    said = say(granularity, written(tmp_path / "plain.json", PLAIN))
    assert said.status == 0, said.text
    for part in ("Granularity of plain", "paper", "strict", "complement phrases", "4 of 2 images", "WordNet 3.0"):
        assert part in said.text
    assert "change" not in said.text
    # Articles as the paper counts: a; a, a; a; some, a: 6 of 4 captions. By the name: 5 of 4.
    row = next(line for line in said.text.splitlines() if "articles" in line).split()
    assert row[1] == "1.500" and "1.250" in row


def test_against_another(tmp_path: Path) -> None:
    plain, fine = written(tmp_path / "plain.json", PLAIN), written(tmp_path / "fine.json", FINE)
    out = tmp_path / "out"
    said = say(granularity, fine, "--against", plain, "--out", out)
    assert said.status == 0, said.text
    for part in ("fine against plain (before), strict profile", "images in common", "holm over 8 features"):
        assert part in said.text
    kept = read_json(out / "granularity.json")
    (adjectives,) = [one for one in kept["changes"]["strict"] if one["feature"] == "adjectives"]
    # No adjectives before; big, brown | small, green → 2 per caption; old | young, red → 1.5.
    assert (adjectives["original"], adjectives["refined"], adjectives["difference"]) == (0, 1.75, 1.75)
    assert [one["name"] for one in kept["collections"]] == ["fine", "plain"]
    values = pq.read_table(out / "captions.parquet")
    assert values.num_rows == 2 * 2 * 4  # collections, profiles, captions
    assert values.column_names[:4] == ["collection", "profile", "caption_id", "image_id"]
    assert (out / "granularity.csv").read_text().splitlines()[0] == "collection,profile,feature,mean,low,high,captions"
    assert len((out / "changes.csv").read_text().splitlines()) == 1 + 2 * 8
    page = (out / "granularity.html").read_text()
    for part in ("What differs", "<svg", "all determiners", "Protocol"):
        assert part in page
    again = say(granularity, fine, "--against", plain, "--out", out)
    assert again.status == 2
    assert "exists already" in again.text and "--replace" in again.text
    before = page
    assert say(granularity, fine, "--against", plain, "--out", out, "--replace").status == 0
    assert (out / "granularity.html").read_text() == before  # the same input, the same page


def test_profiles_and_captions(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.json", PLAIN)
    said = say(granularity, plain, "--profile", "per-noun", "--captions", "first")
    assert said.status == 0, said.text
    assert "per-noun" in said.text
    assert "strict" not in said.text
    assert "2 of 2 images (first of each image)" in said.text


def test_refused(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.json", PLAIN)
    said = say(granularity, plain, "--profile", "strickt")
    assert (said.status, "did you mean 'strict'" in said.text) == (2, True)
    said = say(granularity, plain, "--correction", "hollm")
    assert (said.status, "did you mean 'holm'" in said.text) == (2, True)
    other = written(tmp_path / "other.json", PLAIN, ("q1.jpg", "q2.jpg"))
    said = say(granularity, plain, "--against", other)
    assert said.status == 2
    assert "have no image in common" in said.text
    assert "compare two sets of captions of the same images" in said.text


def test_the_tables_as_latex(tmp_path: Path) -> None:
    file = tmp_path / "tables.tex"
    said = say(granularity, "scenes:20?size=64", "--latex", file, "--json")
    assert said.status == 0 and said.json, said.text
    text = file.read_text("utf-8")
    assert text.count(r"\begin{tabular}") == 1 and r"\toprule" in text and "adjectives" in text
    again = say(granularity, "scenes:20?size=64", "--latex", file)
    assert again.status == 2 and "tables.tex" in again.text
    assert say(granularity, "scenes:20?size=64", "--latex", file, "--replace").status == 0
