"""Every verb that writes, as a command over small inputs: what `faulty.py` kills, starves and watches.

Commands run in a folder of their own, with `cache` in it as visir's cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

TESTS = Path(__file__).parent.parent
SCENES = "scenes:12?size=64"
RECIPE = """name = "small"
dimension = 8
[data]
collection = "scenes:30?size=64"
[image]
tower = "frozen"
encoder = "pixels"
[text]
tower = "frozen"
encoder = "bow:64"
[optimiser]
epochs = 2
batch = 16
"""
SMALL_HEADS = ("category.head.hidden=[8]", "product.head.hidden=[8]", "dimension=8", "optimiser.epochs=1")


def photos(place: Path) -> None:
    """Six photos, one a copy of another, in two folders."""
    (place / "photos" / "trip").mkdir(parents=True)
    for number in range(6):
        picture = Image.new("RGB", (40, 30), (40 * number, 255 - 40 * number, 90))
        picture.save(place / "photos" / ("trip" if number % 2 else ".") / f"{number}.png")
    (place / "photos" / "copy.png").write_bytes((place / "photos" / "0.png").read_bytes())


def changed_photos(place: Path) -> None:
    """One photo more, one less, one moved."""
    Image.new("RGB", (50, 30), (9, 200, 9)).save(place / "photos" / "new.png")
    (place / "photos" / "2.png").unlink()
    (place / "photos" / "trip" / "3.png").rename(place / "photos" / "moved.png")


def recipe(place: Path) -> None:
    (place / "small.toml").write_text(RECIPE)


def log(place: Path) -> None:
    sys.path.append(str(TESTS / "sessions"))
    from intent_log import folder_of, random_log

    folder_of(random_log(30), place)


def queries(place: Path) -> None:
    (place / "queries.txt").write_text("q1\ta red bus\nq2\ta dog\n")


def nothing(place: Path) -> None:
    """The command needs no files."""


@dataclass(frozen=True)
class Act:
    """A command that writes.

    Attributes:
        command: Its arguments.
        out: What it makes or changes: a file or folder; empty where that is the cache.
        files: Makes the files that it needs.
        before: Commands that run first.
        then: Changes the files after those.
        volatile: Patterns of files that differ between two runs (times, speeds).
        perhaps: Patterns of files that may be there or not: how an index keeps what was deleted.
        force: The same command where it may replace what is there; empty where it goes on or adds.
        again: What is added to the command after an interruption.
        needs: Packages without which it cannot run.
    """

    command: tuple[str, ...]
    out: str = "out"
    files: Callable[[Path], None] = nothing
    before: tuple[tuple[str, ...], ...] = ()
    then: Callable[[Path], None] = nothing
    volatile: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    force: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def changes(*values: str) -> tuple[str, ...]:
    return tuple(part for value in values for part in ("--set", value))


MAKE_LIBRARY = ("library", "make", "photos", "--model", "pixels", "--out", "out")
BUILD = ("index", "build", SCENES, "-m", "bow:64", "--to", "captions", "--out", "out")
TRAIN = ("train", "small.toml", "--out", "out")
MODEL = ("train", "small.toml", "--out", "model")
CATEGORIES = ("products", "train", "generated:60", "--recipe", "clip-ita", "--image-model", "pixels",
              "--text-model", "bow:64", "--option", "size=64", "--folds", "2", *changes(*SMALL_HEADS))  # fmt: skip
SESSIONS = ("duckdb",)
PREDICT = ("sessions", "predict", "sessions", "--out", "out", "--min-pages", "4", "--folds", "2", "--classifier", "lr",
           "--folds-by", "grouped", "--jobs", "1")  # fmt: skip

ACTS: dict[str, Act] = {
    "data convert": Act(("data", "convert", SCENES, "out"), force=("--replace",)),
    "encode to a folder": Act(("encode", SCENES, "-m", "bow:64", "--out", "out"), force=("--replace",)),
    "encode to the store": Act(("encode", SCENES, "-m", "pixels"), out="", volatile=("**/visir.json",)),
    "encode a shard": Act(
        ("encode", SCENES, "-m", "pixels", "--modality", "image", "--shard", "1/2", "--shards", "out"),
        volatile=("**/visir.json",),
    ),
    "train": Act(TRAIN, files=recipe, volatile=("*.json", "*.jsonl", "*.svg", "*.html", "*.parquet", "logs/*"),
                 again=("--resume",)),
    "products train": Act(
        (*CATEGORIES, "--out", "out"), volatile=("*.json", "*.jsonl", "*.svg", "*.html"), again=("--resume",)
    ),
    "products evaluate": Act(
        ("products", "evaluate", "generated:60", "--baselines", "bm25", "--folds", "2", "--out", "out"),
        volatile=("*.json", "*.html"), force=("--replace",),
    ),
    "evaluate": Act(
        ("evaluate", SCENES, "-m", "model", "--out", "out"), files=recipe, before=(MODEL,), force=("--replace",),
        volatile=("result.json", "report.html"),
    ),
    "classify": Act(
        ("classify", "scenes:40?size=64", "-m", "model", "--truth", "subject", "--out", "out"), files=recipe,
        before=(MODEL,), force=("--replace",), volatile=("*.json", "*.html"), needs=("sklearn",),
    ),
    "granularity": Act(("granularity", SCENES, "--out", "out"), force=("--replace",)),
    "perturb": Act(("perturb", SCENES, "char_swap", "--split", "test", "-o", "out"), force=("--replace",)),
    "probe": Act(
        ("probe", "scenes:300?size=64", "-m", "model", "--folds", "3", "--out", "out"), files=recipe, before=(MODEL,),
        force=("--replace",), volatile=("*.json", "*.html"),
    ),
    "stress": Act(
        ("stress", SCENES, "-m", "model", "--perturbations", "char_swap", "--out", "out"), files=recipe,
        before=(MODEL,), force=("--replace",), volatile=("stress.json", "stress.html"),
    ),
    "profile": Act(
        ("profile", "model", "--scenes", "12", "--no-at-hand", "--tasks", "scenes/choice", "--out", "out.html"),
        out="out.html", files=recipe, before=(MODEL,), force=("--replace",),
    ),
    "shortcuts preview": Act(
        ("shortcuts", "preview", SCENES, "-n", "2", "--out", "out.html"), out="out.html", force=("--replace",)
    ),
    "library: make": Act(MAKE_LIBRARY, files=photos, volatile=("*.sqlite", "visir.json", "**/visir.json")),
    "library: update": Act(
        ("library", "update", "out"), files=photos, before=(MAKE_LIBRARY,), then=changed_photos,
        volatile=("*.sqlite", "visir.json", "**/visir.json"), perhaps=("*/deleted-*.npy",),
    ),
    "index build": Act(BUILD),
    "index add": Act(("index", "add", "out", "scenes:16?size=64"), before=(BUILD,)),
    "index delete": Act(("index", "delete", "out", "scene-0-000000#1"), before=(BUILD,)),
    "index search to a run": Act(
        ("index", "search", "out", "--queries", "queries.txt", "--out", "run.trec"), out="run.trec", before=(BUILD,),
        files=queries, force=("--replace",),
    ),
    "sessions generate": Act(("sessions", "generate", "--out", "out", "--sessions", "40"), force=("--replace",)),
    "sessions make": Act(
        ("sessions", "make", "log", "--preset", "events", "--out", "out"), needs=SESSIONS,
        before=(("sessions", "generate", "--out", "log", "--sessions", "40", "--dirt", "0.05"),), force=("--replace",),
    ),
    "sessions describe": Act(("sessions", "describe", "sessions", "--out", "out"), files=log, needs=SESSIONS,
                           force=("--replace",)),
    "sessions predict": Act(PREDICT, files=log, needs=(*SESSIONS, "sklearn"), volatile=("*.json", "**/*.json")),
    "sessions train": Act(
        ("sessions", "train", "sessions", "--out", "out", "--protocol", "thesis", "--classifier", "lr",
         "--min-pages", "4"),
        files=log,
        needs=(*SESSIONS, "sklearn", "skops"), volatile=("*.json", "*.skops", "**/*.skops"),
    ),
    "sessions report": Act(
        ("sessions", "report", "study", "--out", "out.html"), out="out.html", files=log, needs=(*SESSIONS, "sklearn"),
        before=((*PREDICT[:4], "study", *PREDICT[5:]),), force=("--replace",),
    ),
    "library token new": Act(("library", "token", "new", "out", "--name", "anna"), volatile=("*",)),
}  # fmt: skip
