"""`visir.publish`: results of many systems as boards, as one site, and as files that travel."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import visir
from visir.cli.main import app
from visir.errors import VisirError
from visir.evaluation.leaderboard import leaderboard, packed, unpacked
from visir.records import Protocol
from visir.reports.site import schema

HACK = "<script>alert(1)</script></script>"
NAMES = {"weak": 3.0, "middle": 1.0, "also middle": 1.0, HACK: 0.3}


def _vectors(collection: visir.collections.Collection, noise: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    images = collection.images["id"].to_pylist()
    captions, owners = (collection.captions[name].to_pylist() for name in ("id", "image_id"))
    truth = np.random.default_rng(0).normal(size=(len(images), 16))
    row = {image: number for number, image in enumerate(images)}
    texts = np.stack([truth[row[owner]] for owner in owners]) + rng.normal(size=(len(captions), 16)) * noise
    image_vectors = truth + rng.normal(size=truth.shape) * noise
    return {"image": (images, image_vectors.astype(np.float32)), "text": (captions, texts.astype(np.float32))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    collection = visir.open("scenes:60?size=64")
    for number, (name, noise) in enumerate(NAMES.items()):
        evaluation = visir.evaluate(collection, vectors=_vectors(collection, noise, number), name=name)
        evaluation.save(place / "all" / str(number))
    first = visir.evaluate(collection, vectors=_vectors(collection, 1.0, 1), name="middle", captions="first")
    first.save(place / "all" / "first")
    return place / "all"


def test_boards_are_of_one_protocol_and_say_what_differs(folder: Path) -> None:
    board = leaderboard([folder])
    assert [(column.task, len(column.standings), column.differs) for column in board.boards] == [
        ("i2t", 4, ("captions: all",)),
        ("i2t", 1, ("captions: first",)),
        ("t2i", 4, ("captions: all",)),
        ("t2i", 1, ("captions: first",)),
    ]
    ranked = board.boards[2]
    assert (ranked.queries, ranked.units) == (300, 60)  # captions of one image are not independent
    assert [name for name in ranked.systems if "middle" not in name] == [HACK, "weak"]
    places = {name: (of["hit@1"].best, of["hit@1"].worst) for name, of in ranked.standings.items()}
    assert places[HACK] == (1, 1) and places["weak"] == (4, 4)
    assert places["middle"] == places["also middle"] == (2, 3)
    assert board.boards[3].standings["middle"]["hit@1"].best == 0  # alone it has no place


def test_places_agree_with_the_tests_of_all_pairs(folder: Path) -> None:
    board = leaderboard([folder])
    results = {entry.name: entry.evaluation for entry in board.entries if "first" not in entry.origin}
    pairs = visir.compare(results, measures=["R@1", "MRR"], pairs=True)
    for one in (board.boards[0], board.boards[2]):
        for measure in ("hit@1", "mrr"):
            for name in results:
                against = [
                    pair for pair in pairs.differences
                    if name in (pair.system, pair.baseline) and (pair.task, pair.measure) == (one.task, measure)
                ]  # fmt: skip
                beaten_by = sum(pair.p_corrected < 0.05 and pair.better != (pair.system == name) for pair in against)
                assert one.standings[name][measure].best == 1 + beaten_by


def test_intervals_are_those_of_a_result(folder: Path) -> None:
    board = leaderboard([folder])
    entry = board.entries[0]
    clusters = np.repeat(np.arange(60), 5)
    order = np.argsort(entry.result.per_query["t2i"]["query_id"].to_pylist())
    found = visir.stats.estimate(entry.result.values("t2i", "hit@1")[order], clusters)
    ours = board.boards[2].standings[entry.name]["hit@1"]
    assert (ours.value, ours.low, ours.high) == pytest.approx((found.value, found.low, found.high))


def test_a_packed_result_says_the_same(folder: Path, tmp_path: Path) -> None:
    files = []
    for number in range(4):
        visir.publish(folder / str(number), out=tmp_path / f"{number}.json")
        files.append(tmp_path / f"{number}.json")
    of_files, of_folders = leaderboard(files), leaderboard([folder / str(number) for number in range(4)])
    for one, other in zip(of_files.boards, of_folders.boards, strict=True):
        assert (one.key, one.systems, one.units) == (other.key, other.systems, other.units)
        for name, standings in other.standings.items():
            for measure, standing in standings.items():
                packed_one = one.standings[name][measure]
                assert (packed_one.best, packed_one.worst) == (standing.best, standing.worst)
                assert packed_one.value == pytest.approx(standing.value, rel=1e-6)
    together = leaderboard([folder / "0", tmp_path])  # the same again counts once
    assert len(together.entries) == 4 and together.notes == ("weak: given twice, counted once",)


def _twice(queries: list[str]) -> None:
    queries[0] = queries[1]


def _measure(one: dict[str, Any], name: str, value: float) -> None:
    of = one["tasks"]["t2i"]
    of["values"][name], of["aggregates"][name] = [value] * len(of["queries"]), value


FORGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another number": (lambda of: of["tasks"]["t2i"]["aggregates"].update({"hit@1": 0.99}), "hit@1: the values have"),
    "a value beyond its measure": (lambda of: of["tasks"]["t2i"]["values"]["hit@1"].__setitem__(0, 7), "lie between"),
    "no number": (lambda of: of["tasks"]["t2i"]["values"]["hit@1"].__setitem__(0, "1"), "one number for each"),
    "true": (lambda of: of["tasks"]["t2i"]["values"]["hit@1"].__setitem__(0, True), "one number for each"),
    "too few values": (lambda of: of["tasks"]["t2i"]["values"]["mrr"].pop(), "one number for each of 300"),
    "a query twice": (lambda of: _twice(of["tasks"]["t2i"]["queries"]), "each once"),
    "other units": (lambda of: of["tasks"]["t2i"].update(units=[0]), "units are one whole number"),
    "negative units": (lambda of: of["tasks"]["t2i"]["units"].__setitem__(0, -1), "units are one whole number"),
    "another protocol": (lambda of: of["protocol"].update(captions="first"), "altered after the evaluation"),
    "a field of nobody": (lambda of: of["protocol"].update(code="x"), "unknown fields 'code'"),
    "a field of another type": (lambda of: of["protocol"].update(folds="5"), "folds: '5' is of the wrong type"),
    "no protocol": (lambda of: of.pop("protocol"), "protocol: what visir.evaluate wrote"),
    "no tasks": (lambda of: of.update(tasks={}), "tasks: {task: its values}"),
    "a task of another name": (lambda of: of["tasks"].update(zzz=of["tasks"].pop("i2t")), "not one of the protocol"),
    "a task of nothing": (lambda of: of.update(tasks={"t2i": []}), "queries, and the values of each measure"),
    "no name": (lambda of: of.update(system=""), "system: a name"),
    "a name of lines": (lambda of: of.update(system="a\nb"), "system: a name"),
    "an entry of nobody": (lambda of: of.update(html="<b>"), "unknown entry 'html'"),
    "notes of numbers": (lambda of: of.update(notes=[1]), "notes: a list of sentences"),
    "versions of numbers": (lambda of: of.update(versions={"visir": 1}), "versions: {package: version}"),
    "beyond of words": (lambda of: of["tasks"]["t2i"].update(beyond={"mean_rank": "x"}), "beyond: {measure"),
    "a sum of its own": (lambda of: of["tasks"]["t2i"]["aggregates"].update(rsum=300), "the recalls have the sum"),
    "more than a number holds": (lambda of: _measure(of, "mine", 1e300), "one number for each of 300"),
    "a task of two lines": (lambda of: of["tasks"].update({"a\nb": of["tasks"]["t2i"]}), "task 'a\\nb': a name"),
    **{
        f"a measure {name!r}": (partial(_measure, name=name, value=0.5), "is no name of a measure")
        for name in ("", "@", "hit@0", "hit@-1", "hit@01", "hit@²", "hit@٣", "ndcg@1e9", "query_id", "rsum", "a\nb",
                     "R@1", "MRR", "x" * 201)
    },
    "another form": (lambda of: of.update(visir_results=99), "of form 99"),
}  # fmt: skip


@pytest.fixture(scope="module")
def content(folder: Path) -> dict[str, Any]:
    return json.loads(json.dumps(packed(visir.open(folder / "1").result)))


@pytest.mark.parametrize("kind", FORGED)
def test_a_packed_result_that_does_not_hold_what_it_says_is_refused(kind: str, content: dict[str, Any]) -> None:
    change, says = FORGED[kind]
    forged = copy.deepcopy(content)
    change(forged)
    with pytest.raises(VisirError) as fault:
        unpacked(forged, "theirs.json")
    assert says in str(fault.value) and "theirs.json" in str(fault.value)


def test_the_schema_has_every_entry(content: dict[str, Any]) -> None:
    form = schema()
    assert set(content) <= set(form["properties"])
    assert set(content["protocol"]) == set(form["properties"]["protocol"]["properties"])
    task = form["properties"]["tasks"]["additionalProperties"]["properties"]
    assert set(content["tasks"]["t2i"]) == set(task)


def test_all_results_that_cannot_be_read_are_named_at_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"visir_results": 1}')
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(VisirError) as fault:
        visir.publish(tmp_path / "a.json", tmp_path / "b.json", folder)
    assert "a.json" in str(fault.value) and "b.json" in str(fault.value)


def test_one_system_of_two_collections_is_one_row_and_twice_in_a_column_two(folder: Path) -> None:
    other = visir.open("scenes:40?size=64&seed=3")
    elsewhere = visir.evaluate(other, vectors=_vectors(other, 1.0, 8), name="middle")
    again = visir.evaluate(
        visir.open("scenes:60?size=64"), vectors=_vectors(visir.open("scenes:60?size=64"), 1.2, 9), name="middle"
    )
    board = leaderboard([folder / "1", elsewhere, again])
    assert [entry.name for entry in board.entries] == ["middle", "middle", "middle (2)"]
    assert board.notes == ("middle (2): another result of middle under the same protocol",)


def test_a_site_is_written_opened_and_replaced_by_itself_alone(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    made = visir.publish(folder, out=site, title="Ours")
    pages = sorted(path.suffix for path in (site / "systems").iterdir())
    assert pages.count(".html") == pages.count(".json") == 5
    assert visir.open(site).to_markdown() == made.to_markdown()
    rows = json.loads((site / "results.json").read_text())["results"]
    assert len((site / "results.csv").read_text().splitlines()) == len(rows) + 1
    assert {row["protocol"] for row in rows} == set(json.loads((site / "results.json").read_text())["protocols"])
    again = {path.name: path.read_bytes() for path in site.rglob("*.*") if path.suffix != ".json"}
    (site / "CNAME").write_text("example.org")  # a file of the user's
    with pytest.raises(VisirError):
        visir.publish(folder, out=site)
    visir.publish(folder, out=site, title="Ours", replace=True)
    assert (site / "CNAME").read_text() == "example.org"
    assert {name: path.read_bytes() for path in site.rglob("*.*") if (name := path.name) in again} == again
    taken = leaderboard(sorted((site / "systems").glob("*.json")))  # what lies in a site goes into the next one
    assert [column.systems for column in taken.boards] == [column.systems for column in leaderboard([folder]).boards]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["publish", str(folder), "--out", str(tmp_path / "site"), "--no-pages"])
    assert run.exit_code == 0 and "site/index.html" in run.stdout and "1–" not in run.stdout.split("weak")[0][:40]
    assert not list((tmp_path / "site" / "systems").glob("*.html"))
    run = CliRunner().invoke(app, ["publish", str(folder / "0"), "--out", str(tmp_path / "mine.json")])
    assert run.exit_code == 0 and json.loads((tmp_path / "mine.json").read_text())["system"] == "weak"
    run = CliRunner().invoke(app, ["publish", str(folder), "--out", str(tmp_path / "all.json")])
    assert run.exit_code == 1 and not (tmp_path / "all.json").exists()


def test_the_page_in_a_browser(folder: Path, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here (CHROMIUM names one)")
    site = tmp_path / "site"
    visir.publish(folder, out=site, data="scenes:60?size=64")
    with playwright.sync_playwright() as runs:
        browser = runs.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda fault: said.append(str(fault)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(f"file://{site}/index.html")
        first = page.locator("tbody tr")
        assert first.count() == 4 and first.nth(0).locator("th").inner_text() == HACK
        assert page.locator("tfoot").inner_text().split()[:3] == ["by", "chance", "1.7"]
        page.fill("#find", "MIDDLE")
        assert first.count() == 2 and "2 of 4 systems" in page.locator("#count").inner_text()
        page.fill("#find", "")
        page.select_option("#measure", "nDCG@10")
        page.locator(".rank").nth(2).click()
        assert page.locator(".ranking li").count() == 4 and page.locator(".about").inner_text().count("60") > 0
        address = page.url
        page.locator(".ranking button").nth(0).click()
        box = page.locator("dialog[open]")
        assert "R@1" in box.inner_text() and "captions" in box.inner_text()
        box.get_by_text("Queries and answers").click()
        page.wait_for_url("**/systems/*.html")
        assert page.locator("img").count() > 0  # pictures of what was found
        page.goto(address)  # an address shows the same again
        assert page.locator(".ranking li").count() == 4
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        browser.close()
    assert said == []


def _as_file(content: dict[str, Any], file: Path, **changes: Any) -> Path:
    content = copy.deepcopy(content) | {"system": "stranger"}
    for name, value in changes.items():
        content["tasks"]["t2i"][name] = value
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"queries": [f"other {number}" for number in range(300)]}, "stranger: other queries than the rest"),
        ({"units": list(range(300))}, "stranger: counts other queries as independent"),
        ({"units": [0] * 300}, "stranger: counts other queries as independent"),
    ],
)
def test_one_file_decides_nothing_about_the_others(
    changes: dict[str, Any], says: str, folder: Path, content: dict[str, Any], tmp_path: Path
) -> None:
    honest = [folder / str(number) for number in range(4)]
    alone, [board] = leaderboard(honest).boards[1], [
        board for board in leaderboard([_as_file(content, tmp_path / "00.json", **changes), *honest]).boards
        if board.task == "t2i"
    ]  # fmt: skip
    assert alone.task == "t2i" and board.units == alone.units == 60
    assert [note for note in board.notes if note.startswith(says)]
    assert {"weak", HACK} <= {name for name, of in board.standings.items() if of["hit@1"].best}


def test_tasks_of_one_result_may_have_different_measures(content: dict[str, Any], tmp_path: Path) -> None:
    changed = copy.deepcopy(content)
    for part in ("values", "aggregates"):
        del changed["tasks"]["t2i"][part]["mrr"]  # some query of this task has no value of it
    (tmp_path / "one.json").write_text(json.dumps(changed))
    boards = {board.task: board.measures for board in leaderboard([tmp_path]).boards}
    assert "mrr" in boards["i2t"] and "mrr" not in boards["t2i"]


def test_a_site_among_the_results_is_no_source_of_results(folder: Path, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "all")
    (place / "gone.json").symlink_to(tmp_path / "nowhere.json")
    visir.publish(place, out=place / "site", pages=False)
    shutil.rmtree(place / "0")
    assert "weak" not in [entry.name for entry in leaderboard([place]).entries]  # though the site has it
    assert "weak" in [entry.name for entry in leaderboard([place / "site"]).entries]


def test_thousands_of_tasks_take_no_square_of_the_time(content: dict[str, Any], tmp_path: Path) -> None:
    of = {"queries": [*"abcdefghijkl"], "values": {"hit@1": [0] * 6 + [1] * 6}, "aggregates": {"hit@1": 0.5}}
    file = tmp_path / "many.json"
    tasks = {f"t{number}": of for number in range(1_000)}
    protocol = Protocol.from_dict(content["protocol"]).changed(queries={}, galleries={})
    stated = {"protocol": protocol.to_dict(), "protocol_fingerprint": protocol.fingerprint}
    file.write_text(json.dumps(content | stated | {"tasks": tasks}))
    before = time.process_time()
    assert len(visir.publish(file, out=tmp_path / "site").tables) == 1_000
    assert time.process_time() - before < 15


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_finds_nothing_that_no_one_gave_it() -> None:
    script = (Path(visir.__file__).parent / "reports/templates/site.js").read_text()
    reviver = script[script.index("const bare") : script.index("const D")]
    given = json.dumps({"measures": {"constructor": 1, "__proto__": {"digits": 2}}, "boards": [{}]})
    asked = '"constructor" in D.boards[0], "toString" in D.measures, D.measures.constructor, D.measures.__proto__'
    run = f"{reviver}; const D = JSON.parse({given!r}, bare); console.log(JSON.stringify([{asked}]))"
    done = subprocess.run(["node", "-e", run], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [False, False, 1, {"digits": 2}]
