"""What every public object says of itself: at most six lines, and HTML that is safe, small and needs nothing else."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from visir.display import LINES, WIDTH, Columnar, Displayed, Plotted, Tabular, brief, cut, view_function
from visir.evaluation.published import PublishedRow
from visir.plugins import BUILT_IN
from visir.records import Collection, Embeddings, EncoderCard, Gallery, Run
from visir.reports.views import VIEWS

ROOMS = (
    *("records", "collections", "shortcuts", "robustness", "encoders", "training", "sparse", "retrieval"),
    *("evaluation", "studies", "reports", *BUILT_IN),
)
HOSTILE = '<script>alert(1)</script> & "x" \x1b[31m \u202e'


@pytest.fixture(scope="module")
def things() -> dict[str, Any]:
    """Small real objects of every kind, made as a person makes them."""
    scenes = visir.open("scenes:30?size=64")
    random = np.random.default_rng(0)
    image_of = dict(zip(scenes.images["id"].to_pylist(), random.standard_normal((30, 8)), strict=True))

    def vectors(noise: float, name: str) -> tuple[Embeddings, Embeddings]:
        card = EncoderCard(name, "example", revision="1", image_preprocessing={"resize": 224})
        texts = np.stack([image_of[image] for image in scenes.captions["image_id"].to_pylist()])
        images = np.stack(list(image_of.values()))
        return (
            Embeddings("image", scenes.images["id"], (images + noise).astype(np.float32), card),
            Embeddings(
                "text",
                scenes.captions["id"],
                (texts + noise * random.standard_normal(texts.shape)).astype(np.float32),
                card,
            ),
        )

    first, second = vectors(0.3, "first"), vectors(0.9, "second")
    evaluation, other = (
        visir.evaluate(scenes, pair, name=name) for name, pair in (("first", first), ("second", second))
    )
    run = evaluation.runs["t2i"]
    from visir.encoders import Store
    from visir.retrieval import build_index

    return {
        "collection": scenes,
        "items": scenes.items("image"),
        "texts": scenes.items("text"),
        "task": scenes.task("t2i"),
        "reverse task": scenes.task("i2t"),
        "sets of judgements": scenes.task("t2i").qrels,
        "qrels": scenes.qrels("t2i"),
        "gallery": scenes.image_gallery(),
        "embeddings": first[0],
        "card": first[0].encoder,
        "evaluation": evaluation,
        "result": evaluation.result,
        "protocol": evaluation.result.protocol,
        "run": run,
        "run with items": _with_items(run, scenes),
        "comparison": visir.compare(evaluation, other),
        "difference": visir.compare(evaluation, other).differences[0],
        "explanation": visir.explain(evaluation, PublishedRow("paper", {"t2i": {"R@1": 30.4}})),
        "encoder": visir.load("pixels"),
        "index": build_index(first[0]),
        "plot": evaluation.plot(),
        "table": _table(),
        "store": Store(),
        "catalogue": _load("products:open_catalogue")("generated:20"),
        "category tasks": _load("products:CatalogueTasks")(_load("products:open_catalogue")("generated:20")),
    }


def _load(target: str) -> Any:
    room, _, name = target.partition(":")
    return getattr(importlib.import_module(f"visir.{room}"), name)


def _with_items(run: Run, scenes: Collection) -> Run:
    from dataclasses import replace

    return replace(run, query_items=scenes.items("text"), document_items=scenes.items("image"))


def _table() -> Any:
    from visir.reports import Column, Table

    return Table.of([Column("name"), Column("value", 1)], [["a", 1.25], ["b", None]], caption="Two & more")


def test_everything_says_what_it_is_in_six_lines(things: dict[str, Any]) -> None:
    long = {name: repr(thing) for name, thing in things.items()}
    long = {name: text for name, text in long.items() if text.count("\n") >= LINES or len(text) > 800}
    assert long == {}
    wide = {name for name, thing in things.items() if any(len(line) > WIDTH for line in repr(thing).split("\n"))}
    assert wide == set()
    assert not [name for name, thing in things.items() if " object at 0x" in repr(thing)]


def test_a_public_class_with_many_values_does_not_print_them() -> None:
    """A dataclass of a room whose fields may be long has a `repr` of its own, or that of `Displayed`."""
    long = ("Array", "Table", "Mapping", "Sequence", "tuple[", "dict[", "list[", "NDArray")
    bad = []
    for room in ROOMS:
        module = importlib.import_module(f"visir.{room}")
        for name in getattr(module, "__all__", []):
            kind = getattr(module, name)
            if not inspect.isclass(kind) or not is_dataclass(kind) or issubclass(kind, Displayed):
                continue
            is_long = [field for field in kind.__dataclass_fields__.values() if any(w in str(field.type) for w in long)]
            if is_long and "__repr__" in vars(kind) and "<string>" in kind.__repr__.__code__.co_filename:
                bad.append(f"{room}.{name}: {', '.join(field.name for field in is_long)}")
    assert bad == [], "write @dataclass(repr=False) and derive from visir.display.Displayed"


def test_a_repr_says_what_matters(things: dict[str, Any]) -> None:
    assert repr(things["collection"]).startswith("Collection(scenes: 30 images, 150 captions)\n  splits: test 3, ")
    assert repr(things["evaluation"]).startswith("Evaluation(first on scenes, split all)\n  i2t: R@1 ")
    assert repr(things["index"]).startswith("StoredIndex(exact: 30 vectors, in memory)")
    assert repr(things["encoder"]).startswith("Encoder(pixels, images")
    assert repr(things["embeddings"]).startswith("Embeddings(30 image vectors, 8 dimensions, float32)\n  ids: scene-0-")


def test_html_is_whole_small_and_asks_for_nothing(things: dict[str, Any]) -> None:
    shown = {name: thing._repr_html_() for name, thing in things.items() if hasattr(thing, "_repr_html_")}
    shown = {name: text for name, text in shown.items() if text}
    assert {"collection", "task", "evaluation", "result", "comparison", "run", "explanation", "qrels"} <= set(shown)
    for name, text in shown.items():
        assert len(text) < 300_000, name
        assert not re.search(r"<script|(?:src|href)=\"(?!data:|#)|url\((?!#)|@import", text), name
        assert text.count("<style>") == text.count("</style>") == 1 and text.strip().endswith("</div>"), name
        assert "background: #" not in text and "#fff" not in text, f"{name}: a white box in a dark notebook"
    assert shown["collection"].count("<img") == 12
    assert 0 < shown["run with items"].count("<img") <= 24 and "<img" not in shown["run"]


def test_what_strangers_wrote_is_text(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    columns = {"id": ["a"], "path": ["a.png"]}
    captions = {"id": ["1"], "text": [HOSTILE], "image_id": ["a"]}
    collection = Collection.build(HOSTILE, images=columns, captions=captions, root=tmp_path, source=HOSTILE)
    task = collection.task("i2t")
    for thing in (collection, task, task.documents, collection.qrels("t2i")):
        assert "<script" not in thing._repr_html_() and "\x1b" not in repr(thing) and "\u202e" not in repr(thing)
    assert "&lt;script&gt;" in collection._repr_html_()


def test_a_picture_that_is_gone_does_not_break_the_output(tmp_path: Path) -> None:
    collection = Collection.build("gone", images={"id": ["a"], "path": ["a.png"]}, root=tmp_path)
    assert "picture cannot be shown" in collection._repr_html_()


def test_nothing_to_show_is_no_fault() -> None:
    empty = Collection.build("empty", images={"id": []})
    assert repr(empty) == "Collection(empty: 0 images, 0 captions)"
    assert "0 images" in empty._repr_html_() and empty.to_arrow().num_rows == 0
    assert "0 images" in empty.items("image")._repr_html_()


def test_columns_for_other_tools(things: dict[str, Any]) -> None:
    frame = things["collection"].to_pandas()
    assert list(frame.columns) == ["image_id", "path", "archive", "split", "caption_id", "text"] and len(frame) == 150
    assert list(things["run"].to_pandas().columns) == ["query_id", "document_id", "rank", "score"]
    assert things["evaluation"].to_arrow().column_names[:2] == ["task", "hit@1"]
    assert things["evaluation"].to_pandas().set_index("task").loc["t2i", "hit@1"] == things["result"].mean(
        "t2i", "hit@1"
    )
    assert things["comparison"].to_arrow().num_rows == len(things["comparison"].differences)
    assert things["embeddings"].to_arrow()["vector"].type.list_size == 8
    assert things["qrels"].to_csv().startswith('"query_id","document_id","grade"\n')
    for name in ("evaluation", "comparison", "explanation", "table"):
        assert r"\begin{tabular}" in things[name].to_latex() and "\n| " in f"\n{things[name].to_markdown()}"
    assert r"Two \& more" in things["table"].to_latex()


def test_pandas_is_named_when_it_is_missing(things: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None)
    with pytest.raises(visir.errors.MissingPackageError, match=r"a DataFrame needs the package 'pandas'(.|\n)*interop"):
        things["run"].to_pandas()


def test_figures_are_matplotlibs_and_leave_its_settings_alone(things: dict[str, Any], tmp_path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    before = dict(matplotlib.rcParams)
    for name in ("evaluation", "comparison"):
        figure = things[name].plot()
        assert isinstance(figure, Figure) and "<svg" in figure._repr_html_() and "currentColor" in figure._repr_html_()
        figure.savefig(tmp_path / f"{name}.png")
        assert Image.open(tmp_path / f"{name}.png").convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in vars(importlib.import_module("visir.reports.plots"))


def test_records_are_pickled_as_before(things: dict[str, Any]) -> None:
    for name in ("collection", "qrels", "run", "embeddings", "evaluation", "comparison"):
        assert repr(pickle.loads(pickle.dumps(things[name]))) == repr(things[name])  # noqa: S301


def test_every_view_is_there() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    for room in ROOMS:
        importlib.import_module(f"visir.{room}")
    for name, view in VIEWS.items():
        package, _, kind_name = name.partition(".")
        files = (Path(visir.__file__).parent / package).rglob("*.py")
        assert sum(f"class {kind_name}(" in file.read_text(encoding="utf-8") for file in files) == 1, name
        assert all(callable(view.function(part)) for part in view._fields[1:] if getattr(view, part)), name
    for kind in filterfalse(inspect.isabstract, below(Displayed)):
        thing = object.__new__(kind)
        if view_function(thing, "blocks"):
            needs: list[tuple[type, str]] = [(Tabular, "table"), (Plotted, "plot")]
            assert all(callable(view_function(thing, name)) for base, name in needs if issubclass(kind, base)), kind
        elif issubclass(kind, Columnar) and kind not in (Columnar, Tabular):
            assert kind.to_arrow is not Columnar.to_arrow, f"{kind}: it needs to_arrow or a view"


def test_a_class_of_ones_own() -> None:
    @dataclass(frozen=True, repr=False)
    class Mine(Displayed):
        values: np.ndarray[Any, Any]
        gallery: Gallery
        names: tuple[str, ...]
        text: str

    mine = Mine(np.zeros((4, 3)), Gallery.of("image", ["a"]), tuple("abcdefgh"), "x" * 500)
    assert repr(mine) == (
        "Mine\n  values=<4 × 3 float64>\n  gallery=<Gallery>\n  names=<8: 'a', 'b', 'c', …>\n  text=" + _cut_text()
    )
    assert mine._repr_html_() is None
    many: Callable[..., str] = brief
    assert many(mine, "x", *map(str, range(9))).split("\n")[-1] == "  … 5 more"
    assert cut("a\x1b[2Jb\nc") == "a\\u001b[2Jb\\u000ac"


def _cut_text() -> str:
    return f"'{'x' * 27}...{'x' * 28}'"
