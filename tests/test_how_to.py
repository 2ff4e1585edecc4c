"""The Python of every how-to page runs: in order, in one namespace, in a folder that has what the page is about.

A block that needs what no test has stands behind `<!-- not run: REASON -->` in its page.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visir
from class_toys import class_folder
from photo_toys import photos_and_clip
from visir.encoders import FAMILIES
from visir.retrieval.kinds import KINDS

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
HERE = Path(__file__).parent
sys.path += [str(HERE / "collections"), str(HERE / "encoders")]  # small layouts and models of other tests

BLOCK = re.compile(r"^( *)(?:<!-- not run: (.+?) -->\n+ *)?```python\n(.*?)^ *```", re.S | re.M)
CLIP = "openai/clip-vit-base-patch32"
Setup = Callable[[Path], dict[str, Any]]


def blocks(page: Path) -> list[tuple[str, str]]:
    """(the code, why it is not run) of each block of Python of a page."""
    return [(textwrap.dedent(code), reason) for _, reason, code in BLOCK.findall(page.read_text(encoding="utf-8"))]


def nothing(folder: Path) -> dict[str, Any]:
    return {}


def alias(name: str, folder: Path) -> dict[str, Any]:
    """The small CLIP under another name."""
    shutil.copytree(folder / CLIP, folder / name)
    return {}


def results(folder: Path) -> dict[str, Any]:
    """Two results, a run of BM25, and judgements."""
    data = visir.open(folder / "mine.csv", images=folder / "photos")
    for name in ("clip", "siglip"):
        visir.evaluate(data, CLIP if name == "clip" else "colours", depth=50).save(folder / "runs" / name)
    (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    (folder / "bm25.trec").write_text("q1 Q0 a 1 0.9 bm25\nq2 Q0 a 1 0.8 bm25\nq2 Q0 b 2 0.1 bm25\n")
    vectors = {side: visir.encode(CLIP, data, side) for side in ("image", "text")}
    return {
        "run": {"q1": {"a": 0.5}, "q2": {"b": 0.5}},
        "collection": data,
        "images": vectors["image"],
        "texts": vectors["text"],
    }


def board(folder: Path) -> dict[str, Any]:
    """The same results, in a folder of results."""
    names = results(folder)
    (folder / "runs").rename(folder / "results")
    return names


def composed(folder: Path) -> dict[str, Any]:
    from composed_layouts import cirr, fashioniq

    fashioniq(folder / "fashion-iq")
    shutil.copytree(folder / "fashion-iq" / "images", folder / "images")
    cirr(folder / "cirr")
    return {"model": visir.load(CLIP)}


def choices(folder: Path) -> dict[str, Any]:
    """SugarCrepe and Flickr30k as their makers lay them out."""
    names = sorted(path.name for path in (folder / "photos").iterdir())[:6]
    rows = {
        n: {"filename": name, "caption": "a red cup", "negative_caption": "a blue cup"} for n, name in enumerate(names)
    }
    (folder / "sugar-crepe" / "data").mkdir(parents=True)
    for part in ("swap_att", "replace_obj"):
        (folder / "sugar-crepe" / "data" / f"{part}.json").write_text(json.dumps(rows))
    karpathy(folder)
    shutil.copytree(folder / "photos", folder / "val2017")
    shutil.copytree(folder / "photos", folder / "flickr30k-images")
    return {"model": visir.load(CLIP)}


def karpathy(folder: Path, name: str = "dataset_flickr30k.json") -> None:
    """A file of Karpathy's splits, of which all pictures are test."""
    captions: dict[str, list[str]] = {}
    for row in csv.DictReader((folder / "photos.csv").open(encoding="utf-8")):
        captions.setdefault(row["image"], []).append(row["caption"])
    images = []
    for number, (image, texts) in enumerate(captions.items()):
        sentences = [
            {"raw": text, "sentid": 10 * number + place, "imgid": number, "tokens": text.split()}
            for place, text in enumerate(texts)
        ]
        images.append({"filename": image, "imgid": number, "sentids": [], "split": "test", "sentences": sentences})
    (folder / name).write_text(
        json.dumps({"dataset": name.removeprefix("dataset_").removesuffix(".json"), "images": images})
    )


def birds(folder: Path) -> dict[str, Any]:
    """The folder of the page, with the layout that the page prints."""
    page = (PAGES / "describe-a-layout.md").read_text(encoding="utf-8")
    (folder / "birds" / "lists").mkdir(parents=True)
    (folder / "birds" / "birds.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    photo = {"nr": 7, "file": "7.jpg", "said": [{"txt": "a robin"}], "camera": "X1"}
    (folder / "birds" / "lists" / "birds_train.json").write_text(json.dumps({"photos": [photo]}))
    return {}


def evaluated(folder: Path) -> dict[str, Any]:
    """COCO as Karpathy split it, a shop's table, and vectors of both sides."""
    karpathy(folder, "dataset_coco.json")
    (folder / "photos").rename(folder / "val2014")
    shutil.copy(folder / "photos.csv", folder / "shop.csv")
    shop = visir.open(folder / "shop.csv")
    image_ids, text_ids = shop.images["id"].to_pylist(), shop.captions["id"].to_pylist()
    rng = np.random.default_rng(0)
    matrices = {
        "image_matrix": rng.normal(size=(len(image_ids), 8)),
        "text_matrix": rng.normal(size=(len(text_ids), 8)),
    }
    return {"image_ids": image_ids, "text_ids": text_ids, **matrices}


def classes(folder: Path) -> dict[str, Any]:
    """Photos of three classes, as they lie in folders."""
    class_folder(folder / "data", train=4, test=4, val=0)
    for split in ("train", "test"):
        for old, new in (("red", "fox"), ("green", "owl"), ("blue", "snail")):
            (folder / "data" / split / old).rename(folder / "data" / split / new)
    (folder / "my-templates.txt").write_text("a photo of a {}.\nthis is a {}.\n")
    return {}


def extension(folder: Path) -> dict[str, Any]:
    """What the files of the example import."""
    from visir.collections.sources import Format
    from visir.encoders.families import Family
    from visir.plugins import Application, Verb
    from visir.robustness.perturbations.base import TaggedCaption
    from visir.robustness.random_stream import RandomStream

    return {"Family": Family, "Format": Format, "Application": Application, "Verb": Verb, "read": lambda path: None,
            "TaggedCaption": TaggedCaption, "RandomStream": RandomStream}  # fmt: skip


def model(folder: Path) -> dict[str, Any]:
    """A small GroupViT, and the page's family in a file that can be imported."""
    import tiny_transformers

    tiny_transformers.save("groupvit", folder / "groupvit")
    code = next(code for code, _ in blocks(PAGES / "add-a-model.md") if "def load_family" in code)
    assert len(code.splitlines()) <= 60
    (folder / "mean_colour.py").write_text(code)
    sys.path.append(str(folder))
    return {}


def study(folder: Path) -> dict[str, Any]:
    """The example's package, as if it were installed."""
    sys.path.append(str(PAGES.parents[1] / "examples" / "visir-example" / "src"))
    from visir.plugins import Application, Verb

    return {"Application": Application, "Verb": Verb}


def own_towers(folder: Path) -> dict[str, Any]:
    return {
        "my_image_tower": lambda pictures: np.array([np.asarray(p.resize((4, 4)), float).ravel() for p in pictures]),
        "my_text_tower": lambda texts: np.array(
            [[float(ord(text[i % len(text)])) for i in range(48)] for text in texts]
        ),
    }


def home(folder: Path) -> dict[str, Any]:
    shutil.copytree(folder / "photos", folder / "Photos")
    return {}


def library(folder: Path) -> dict[str, Any]:
    """A library in folders, with a picture to ask with."""
    (folder / "Photos" / "holidays").mkdir(parents=True)
    for number, path in enumerate(sorted((folder / "photos").iterdir())):
        shutil.copy(path, folder / "Photos" / ("holidays/IMG_0042.jpg" if number == 0 else path.name))
    shutil.copy(path, folder / "shoe.jpg")
    visir.index(folder / "Photos", CLIP, out=folder / "Photos.visir")
    return {}


def shop(folder: Path) -> dict[str, Any]:
    """A shop's table, of which a part has no category, and a log of its search."""
    from visir.products.generated import generate_catalogue

    made = generate_catalogue(120, seed=1)
    rows = made.catalogue.products.to_pylist()
    (folder / "pictures").mkdir()
    pictures = sorted((folder / "photos").iterdir())
    kinds = ["Clothes/Dresses", "Clothes/Skirts", "Shoes"]
    with (folder / "shop.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "title", "category", "price", "brand", "image"])
        for number, row in enumerate(rows):
            kind = number % 3
            name = f"{number}.jpg"
            shutil.copy(pictures[number % len(pictures)], folder / "pictures" / name)
            title = f"{('red', 'blue', 'green')[number % 5 % 3]} {('dress', 'cotton skirt', 'shoe')[kind]} {row['id']}"
            writer.writerow(
                [
                    row["id"],
                    title,
                    kinds[kind] if number < 100 else "",
                    20 + number,
                    ("Acme", "Other")[number % 2],
                    name,
                ]
            )
    shutil.copy(folder / "shop.csv", folder / "styles.csv")
    (folder / "synonyms.txt").write_text("gents, men\n")
    with (folder / "searches.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "product_id", "position", "clicked", "visitor"])
        for visitor in range(60):
            for place, row in enumerate(rows[:3]):
                position = (place + visitor) % 3 + 1  # a search that sometimes swaps products
                writer.writerow(["red dress", row["id"], position, int((7 * visitor + place) % 4 == 0), f"v{visitor}"])
    from visir.products import train

    train(
        str(folder / "shop.csv"),
        image="pixels",
        text="bow:64",
        out=folder / "runs" / "products",
        epochs=1,
        folds=3,
        fold=1,
    )
    return {"run": {"red dress": {rows[0]["id"]: 0.9, rows[1]["id"]: 0.5}}}


def log_of_a_shop(sessions: int, folder: Path) -> dict[str, Any]:
    from visir.sessions import generate, preset, sessionise

    generate(folder / "log", sessions, seed=2)
    shutil.copytree(folder / "log" / "events", folder / "events.parquet")
    if sessions > 1_000:
        sessionise(str(folder / "events.parquet"), preset("events"), folder / "sessions")
        event = {"visitor": "v7", "time": 1740787801564468, "action": "page", "page": "/shoes", "device": "pc"}
        return {"events": [event, {**event, "time": event["time"] + 10**7}]}
    return {}


def decisions(folder: Path) -> dict[str, Any]:
    lines = []
    for number in range(60):
        session, variant = f"s{number}", ("rules", "model")[number % 2]
        time = "2026-11-02T10:00:00Z"
        lines.append({"session": session, "visitor": f"v{number}", "variant": variant, "decision": "", "time": time})
        lines.append({"session": session, "outcome": int(number % 7 == 0)})
    (folder / "decisions.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return {}


def languages(folder: Path) -> dict[str, Any]:
    """Multi30k and DOCCI as their makers lay them out."""
    task = folder / "multi30k" / "data" / "task1"
    (task / "raw").mkdir(parents=True)
    (task / "image_splits").mkdir()
    names = [path.name for path in sorted((folder / "photos").iterdir())]
    (task / "image_splits" / "test_2016_flickr.txt").write_text("\n".join(names) + "\n")
    for language in ("en", "de", "fr"):
        (task / "raw" / f"test_2016_flickr.{language}").write_text("".join(f"{language} {name}\n" for name in names))
    shutil.copytree(folder / "photos", folder / "flickr30k-images")
    (folder / "docci").mkdir()
    shutil.copytree(folder / "photos", folder / "docci" / "images")
    with (folder / "docci" / "docci_descriptions.jsonlines").open("w") as file:
        for number, name in enumerate(names):
            row = {"example_id": name.removesuffix(".jpg"), "split": "test", "image_file": name}
            file.write(json.dumps(row | {"description": "a red car " * (2 + 30 * (number % 2))}) + "\n")
    return alias("google/siglip2-base-patch16-224", folder)


def trained(folder: Path) -> dict[str, Any]:
    visir.train("scenes-heads", data="scenes:40?size=64", out=folder / "runs" / "first", epochs=1)
    shutil.copytree(folder / "runs" / "first", folder / "runs" / "mine")
    karpathy(folder, "flickr8k.json")
    return {}


def late_interaction(folder: Path) -> dict[str, Any]:
    """A small model with several vectors of each item, pages, and functions that make such vectors."""
    import tiny_late

    tiny_late.save("colmodernvbert", folder / "ModernVBERT" / "colmodernvbert-merged")
    shutil.copytree(folder / "photos", folder / "pages")
    (folder / "photos" / "000.jpg").rename(folder / "photos" / "beach.jpg")
    several = np.ones((3, 8))
    return {
        "patches_of": lambda pictures: [several for _ in pictures],
        "words_of": lambda texts: [several for _ in texts],
    }


def sentence_models(folder: Path) -> dict[str, Any]:
    """A small model of texts, a small SPLADE and a small ColBERT."""
    import tiny_multi_vector
    import tiny_sentence

    shutil.copytree(folder / CLIP, folder / "text-model")
    tiny_sentence.save_splade(folder / "splade-model")
    tiny_multi_vector.save_text(folder / "colbert-model")
    return {}


def measured(folder: Path) -> dict[str, Any]:
    """A model that was trained here, and its results."""
    run = visir.train("scenes-heads", data="scenes:40?size=64", out=folder / "runs" / "mine", epochs=1, batch=16)
    visir.evaluate("scenes:40?size=64", run, split="test").save(folder / "results" / "flickr8k")
    return {}


SETUPS: dict[str, Setup] = {
    "build-an-index": nothing,
    "choose-a-model": own_towers,
    "classify": classes,
    "compare": results,
    "composed-queries": composed,
    "describe-a-layout": birds,
    "encode-on-many-machines": nothing,
    "evaluate": evaluated,
    "evaluate-choices": choices,
    "explain": results,
    "add-a-kind-of-index": nothing,
    "add-a-model": model,
    "add-a-study": study,
    "extend-visir": extension,
    "fine-tune": nothing,
    "make-a-library": home,
    "make-sparse-vectors": nothing,
    "measure-granularity": nothing,
    "measure-long-captions-and-languages": languages,
    "perturb": partial(alias, "MODEL"),
    "predict-purchases": partial(log_of_a_shop, 3_000),
    "probe": trained,
    "publish-a-model": measured,
    "publish-results": board,
    "profile": trained,
    "read-shop-logs": partial(log_of_a_shop, 300),
    "run-an-online-test": decisions,
    "search-a-library": library,
    "search-products": shop,
    "serve": library,
    "stress": trained,
    "train": nothing,
    "train-with-sentence-transformers": sentence_models,
    "use-an-engine": nothing,
    "use-categories": shop,
    "use-late-interaction": late_interaction,
    "use-your-data": nothing,
    "write-a-recipe": partial(alias, "runs/clip"),
}
"""What each page needs beside photos, captions and a small CLIP."""
SLOW = {"probe", "profile"}
MOST_NOT_RUN = 6
"""Blocks that need the hub, a server, or a bucket."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`photos/`, `photos.csv`, `captions.csv`, `mine.csv` with splits, and a small CLIP under a real name."""
    folder = photos_and_clip(tmp_path_factory.mktemp("how-to"))
    rows = list(csv.DictReader((folder / "photos.csv").open(encoding="utf-8")))
    shutil.copy(folder / "photos.csv", folder / "captions.csv")
    images = list(dict.fromkeys(row["image"] for row in rows))
    split = {image: ("train", "train", "train", "val", "test")[number % 5] for number, image in enumerate(images)}
    with (folder / "mine.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption", "split"])
        writer.writerows([row["image"], row["caption"], split[row["image"]]] for row in rows)
    (folder / CLIP).parent.mkdir()
    (folder / "clip").rename(folder / CLIP)  # only names that visir knows are there
    return folder


def test_every_page_is_in_the_table() -> None:
    assert {page.stem for page in PAGES.glob("*.md") if blocks(page)} == SETUPS.keys()


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    reasons = [reason for page in PAGES.glob("*.md") for _, reason in blocks(page) if reason]
    assert len(reasons) <= MOST_NOT_RUN and all(len(reason) > 10 for reason in reasons)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in SETUPS]
)
def test_the_page_runs(name: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    shutil.copytree(base, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(FAMILIES, "_things", {name: FAMILIES.get(name) for name in FAMILIES})
    monkeypatch.setattr("visir.library.library.Library.serve", lambda self: None)  # it would not come back
    monkeypatch.setattr(KINDS, "_things", {**KINDS._things})  # a page adds some
    page = PAGES / f"{name}.md"
    names: dict[str, Any] = SETUPS[name](folder)
    for number, (code, reason) in enumerate(blocks(page), 1):
        if not reason:
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
