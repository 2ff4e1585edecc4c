from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import report_toys as toys
from PIL import Image

from refusals import refused
from visir.errors import CollectionError, ImageError
from visir.records import Collection, Result, Run
from visir.reports import evaluation_report
from visir.reports.evaluation import expected_by_chance
from visir.reports.page import thumbnails

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Parses strictly enough to notice an unclosed element, and keeps what was found."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def tiny(tmp_path: Path):
    return toys.collection(tmp_path)


def written(folder: Path, tiny: Collection, **options) -> tuple[str, Page]:
    runs = options.get("runs") or toys.runs(tiny)
    made = options.pop("result", None) or toys.result(tiny, runs)
    options = {"runs": runs, "source": tiny, **options}
    made_by = {name: options.pop(name) for name in ("command", "beside") if name in options}
    path = evaluation_report(made, **options).write(folder / "report.html", **made_by)
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def test_the_page_parses_and_shows_the_numbers(tmp_path, tiny):
    text, page = written(tmp_path, tiny, command="visir evaluate tiny", beside={"result.json": "aggregates"})
    said = " ".join(" ".join(page.text).split())
    assert "33.3 % of the images have a right caption first." in said
    assert "466.7" in said and "visir evaluate tiny" in said
    assert "first right answer at rank 5 of 6" in said
    assert {"href": "result.json"} in page.all("a")
    assert text.startswith('<!doctype html>\n<html lang="en">')


def test_nothing_is_fetched_from_anywhere(tmp_path, tiny):
    text, page = written(tmp_path, tiny)
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                assert re.match(r"data:image/jpeg;base64,|#", value or "")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert page.all("meta")[2]["content"].startswith("default-src 'none'")


def test_a_reader_of_the_screen_gets_headings_alternatives_and_scopes(tmp_path, tiny):
    _, page = written(tmp_path, tiny)
    assert all(attributes.get("alt") for attributes in page.all("img"))
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert all(attributes.get("aria-label") for attributes in page.all("svg"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")} <= set(ids)


def test_hostile_texts_are_inert(tmp_path):
    hostile = toys.collection(tmp_path, hostile=True)
    runs = toys.runs(hostile)
    made = toys.result(hostile, runs, notes=(toys.HOSTILE,), versions={toys.HOSTILE: toys.HOSTILE})
    made = Result(
        toys.HOSTILE,
        made.protocol.changed(collection=toys.HOSTILE, text_preprocessing=toys.HOSTILE),
        made.per_query,
        made.aggregates,
        made.versions,
        {toys.HOSTILE: 1.0},
        made.notes,
    )
    _, page = written(
        tmp_path,
        hostile,
        result=made,
        title=toys.HOSTILE,
        command=toys.HOSTILE,
        beside={"javascript:alert(1)": toys.HOSTILE},
        training=[{"epoch": 1, "loss": 1.0, toys.HOSTILE: 2.0}],
    )
    assert page.all("script") == []
    assert all(
        set(image) <= {"src", "width", "height", "alt", "title", "loading", "decoding"} for image in page.all("img")
    )
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert {"href": "javascript%3Aalert%281%29"} in page.all("a")
    assert toys.HOSTILE in "".join(page.text)  # shown, as the text that it is


def test_same_input_same_bytes(tmp_path, tiny):
    history = [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}]
    assert written(tmp_path, tiny, training=history)[0] == written(tmp_path, tiny, training=history)[0]


def test_pictures_that_are_not_at_hand_are_replaced_by_captions(tmp_path):
    bare = toys.collection(tmp_path, pictures=False)
    text, page = written(tmp_path, bare)
    assert page.all("img") == []
    assert "3 pictures are not at hand" in text
    assert "image &#39;a&#39;: only its metadata is at hand." in text


def test_a_broken_picture_does_not_stop_the_report(tmp_path, tiny):
    (tmp_path / "b.png").write_bytes(b"not a picture")
    text, page = written(tmp_path, tiny)
    assert "One picture is not at hand" in text
    assert len(page.all("img")) > 0


def test_without_runs_the_numbers_and_plots_remain(tmp_path, tiny):
    text, page = written(tmp_path, tiny, runs=None, source=None)
    assert "Queries, as pictures" not in text
    assert len(page.all("svg")) == 2
    assert "random order" not in text


def test_a_result_without_ranks_has_no_plots(tmp_path, tiny):
    made = toys.result(tiny, toys.runs(tiny))
    tables = {d: table.select(["query_id", "recall@1"]) for d, table in made.per_query.items()}
    bare = Result("toy", made.protocol, tables, {d: {"recall@1": 0.5} for d in tables})
    text, page = written(tmp_path, tiny, result=bare, runs=None, source=None)
    assert page.all("svg") == [] and "The recall that the protocol names was not measured" in text


def test_runs_of_another_collection_are_refused(tmp_path, tiny):
    runs = toys.runs(tiny)
    made = toys.result(tiny, runs)
    # Only image a and its captions are left: the runs speak of more.
    part = tiny.keep_images(np.array([True, False, False]))
    with refused(CollectionError, "image", "b", code="runs-speak-not-collection"):
        evaluation_report(made, runs=runs, source=part).write(tmp_path / "r.html")


def test_captions_that_took_no_part_are_not_shown_as_right(tmp_path, tiny):
    runs = toys.runs(tiny)
    part = {"i2t": tiny.qrels("i2t"), "t2i": tiny.qrels("t2i")}
    part["i2t"] = type(part["i2t"]).of(["a", "b", "c"], ["a0", "b0", "c0"])
    text, _ = written(tmp_path, tiny, runs=runs, qrels=part, result=toys.result(tiny, runs))
    right = re.findall(r'<li class="right"><span class="soft">rank (\d)', text)
    # Only a0, b0 and c0 are right: ranks 1, 3 and 5 of the first captions.
    assert sorted(set(right)) == ["1", "3", "5"]


def test_under_folds_chance_is_that_of_one_fold(tmp_path, tiny):
    runs = toys.runs(tiny)
    made = toys.result(tiny, runs)
    folded = Result(made.system, made.protocol.changed(folds=3), made.per_query, made.aggregates)
    assert expected_by_chance(folded, runs, {"t2i": tiny.qrels("t2i")})["t2i"].tolist() == [1.0]
    # One of three images: 1/3, 2/3, 1.
    assert expected_by_chance(made, runs, {"t2i": tiny.qrels("t2i")})["t2i"] == pytest.approx([1 / 3, 2 / 3, 1])


def test_images_and_captions_may_share_ids(tmp_path):
    for name in ("0", "1"):
        Image.new("RGB", (20, 20), "teal").save(tmp_path / f"{name}.png")
    shared = Collection.build(
        "shared",
        images={"id": ["0", "1"], "path": ["0.png", "1.png"], "split": ["test"] * 2},
        captions={"id": ["0", "1"], "text": ["says nought", "says one"], "image_id": ["1", "0"]},
        root=tmp_path,
    )
    gallery = shared.image_gallery()
    run = Run.ranked("r", "t2i", ["0", "0", "1", "1"], ["0", "1", "0", "1"], [2.0, 1.0, 1.0, 2.0], gallery)
    made = toys.result(toys.collection(tmp_path), toys.runs(toys.collection(tmp_path)))
    bare = Result("toy", made.protocol, {}, {})
    _, page = written(tmp_path, shared, result=bare, runs={"t2i": run})
    assert "“says nought”" in "".join(page.text)
    assert {image["alt"] for image in page.all("img")} == {"says nought", "says one"}


def test_the_page_stays_under_two_megabytes_with_pictures_of_noise(tmp_path):
    random = np.random.default_rng(0)
    n = 120
    for at in range(n):
        Image.fromarray(random.integers(0, 256, (200, 260, 3), np.uint8)).save(tmp_path / f"{at}.png")
    ids = [f"{at:03}" for at in range(n)]
    noisy = Collection.build(
        "noise",
        images={"id": ids, "path": [f"{at}.png" for at in range(n)], "split": ["test"] * n},
        captions={"id": ids, "text": ["word " * 400] * n, "image_id": ids},
        root=tmp_path,
    )
    runs = toys.runs(noisy, n, random.normal(size=(n, n)).astype(np.float32))
    text, page = written(tmp_path, noisy, runs=runs)
    assert len(page.all("img")) > 60
    assert len(text.encode()) < 2_000_000


def test_thumbnails_shrink_until_they_fit_and_keep_the_shape():
    picture = Image.effect_noise((400, 200), 80).convert("RGB")
    generous = thumbnails(["x"], lambda _: picture.copy(), budget=10**6)["x"]
    tight = thumbnails(["x"], lambda _: picture.copy(), budget=3_000)["x"]
    assert (generous.width, generous.height) == (168, 84)
    assert tight.width < generous.width and len(tight.uri) < len(generous.uri)

    def missing(one: str) -> Image.Image:
        raise ImageError(f"{one} is gone.")

    assert thumbnails(["y"], missing, budget=10)["y"].reason == "y is gone."


def test_heavy_packages_are_imported_only_when_something_is_drawn():
    code = (
        "import sys, visir.reports; print([m for m in ('matplotlib', 'jinja2', 'rich', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
