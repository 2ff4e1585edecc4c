"""What a language costs: image–text retrieval on real photos with captions by people in five languages.

    VISIR_DATA=../shared/data python benchmarks/flickr8k_languages.py [--jobs 2] [--out runs/flickr8k-languages]
    python benchmarks/flickr8k_languages.py --quick        # a smoke run: 300 photos, one epoch, two seeds

The photos are those of Flickr8k that have captions in English, German, French, Czech (Multi30K, task 1: one English
caption of a photo and its translations by people) and Chinese (Flickr8k-CN: written by people who saw the photo, not
translated; the first of five). So every language has the same photos and as many captions: one of each photo. Splits
are Flickr8k's.

For each language a model is trained on its captions alone, and one model ("all") on the captions of all languages. A
model is heads over a frozen MobileNetV2 and a GRU (`--tower gru`, recipe `flickr8k-gru`) or a bag of words (`bow`,
recipe `flickr8k-heads`) from scratch. The words of Chinese are characters, in the bag also pairs of neighbours. Three
seeds. What is finished stays: run it again, and it goes on where it was stopped.

Two tables: each language against English, and "all" against the model of the language alone, on the same test photos.
Intervals (95 %) and p are over photos and seeds together (`visir.stats.difference`), p corrected by Holm.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir
from flickr8k_tables import show, spread
from visir.collections.portable import load, save
from visir.encoders.towers.gru import WordVocabulary, tokenise
from visir.evaluation.measures import RSUM_CUTOFFS as CUTOFFS
from visir.evaluation.results import is_result, load_evaluation, rsum_by_image
from visir.files import data_directory, read_json
from visir.records import TASKS, Collection
from visir.stats import adjust, difference
from visir.studies.trial import CHECKPOINT, DualEncoderTrial, run_trials
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe
from visir.training.trained import CURVE_FILE

LANGUAGES = {"en": "English", "de": "German", "fr": "French", "cs": "Czech", "zh": "Chinese"}
ALL = "all"
TEST = "test"
BAG = ("text.encoder=bow:fitted:8192", "dimension=256", "optimiser.epochs=20", "optimiser.batch=256")
TOWERS: dict[str, tuple[str, tuple[str, ...]]] = {"gru": ("flickr8k-gru", ()), "bow": ("flickr8k-heads", BAG)}
"""Text tower → its recipe, and what is set over it."""
Floats = NDArray[np.float64]


def same_photos(data: Path) -> Collection:
    """The photos with captions in every language, one caption each."""
    flickr8k = data / "flickr8k"
    chinese = visir.open(
        data / "multilingual" / "flickr8k-cn", splits=flickr8k, images=flickr8k, unlisted="drop", captions="zhc"
    )
    translated = visir.open(data / "multilingual" / "multi30k", images="none")
    texts: dict[str, dict[str, tuple[str, str]]] = {}
    for row in translated.captions.to_pylist():
        texts.setdefault(row["image_id"], {}).setdefault(row["language"], (row["id"], row["text"]))
    photos = {image: f"{image.partition('_')[0]}.jpg" for image in chinese.images["id"].to_pylist()}
    for row in chinese.captions.to_pylist():
        texts.get(photos[row["image_id"]], {}).setdefault("zh", (row["id"], row["text"]))
    captioned = [image for image, name in photos.items() if texts.get(name, {}).keys() >= LANGUAGES.keys()]
    captions = [(*texts[photos[image]][language], image, language) for image in captioned for language in LANGUAGES]
    columns = dict(zip(("id", "text", "image_id", "language"), map(list, zip(*captions, strict=True)), strict=True))
    images = chinese.images.filter(pc.is_in(chinese.images["id"], pa.array(captioned)))
    return Collection.build(
        "Flickr8k in five languages",
        images={name: images[name] for name in images.column_names},
        captions=columns,
        root=chinese.root,
        source="Flickr8k-CN and Multi30K, task 1: photos with captions in all five languages, one each",
    )


def written(data: Path, out: Path, photos: int | None) -> Collection:
    """The collection of the study, in a folder of its own; pictures stay where they are."""
    folder = out / "collection"
    if not (folder / "collection.json").is_file():
        collection = same_photos(data)
        if photos is not None:
            parts = [collection.split(split).sample(photos if split == "train" else photos // 3)
                     for split in ("train", "val", TEST)]  # fmt: skip
            ids = pa.array([image for part in parts for image in part.images["id"].to_pylist()])
            collection = collection.keep_images(pc.is_in(collection.images["id"], ids))
        save(collection, folder, images="link")
    return load(folder)


def trial_of(
    tower: str, language: str, seed: int, out: Path, quick: bool, more: Sequence[str] = ()
) -> DualEncoderTrial:
    """One training; the models of one language are evaluated on its captions."""
    part = "" if language == ALL else f"?language={language}"
    changes = [
        f"seed={seed}",
        f"name={tower}-{language}",
        *TOWERS[tower][1],
        f"data.collection=portable:{(out / 'collection').absolute()}{part}",
        *(("optimiser.epochs=1", 'image.views=["whole"]') if quick else ()),
        *more,
    ]
    recipe = read_recipe(find_recipe(TOWERS[tower][0]), tuple(changes))
    return DualEncoderTrial(f"{tower}-{language}/seed{seed}", recipe, {} if language == ALL else {TEST: None})


def measured(trial: DualEncoderTrial, language: str, collection: Collection, out: Path) -> visir.Evaluation:
    """The evaluation of a model on the test photos and the captions of one language."""
    folder = trial.folder(out) / (TEST if trial.evaluations else f"{TEST}-{language}")
    if not is_result(folder):
        part = collection.keep_languages(language)
        visir.evaluate(part, visir.load(str(trial.folder(out) / CHECKPOINT)), split=TEST, depth=10).save(folder)
    return load_evaluation(folder)


def unknown_words(trial: DualEncoderTrial, texts: list[str], out: Path) -> tuple[int, float] | None:
    """The size of a GRU's vocabulary, and the share of the words of texts that are not in it."""
    files = list((trial.folder(out) / CHECKPOINT).rglob("vocabulary.txt"))
    if not files:
        return None
    known = set(WordVocabulary.load(files[0]).words)
    words = [word for text in texts for word in tokenise(text)]
    return len(known), sum(word not in known for word in words) / len(words)


def table(
    models: dict[str, list[DualEncoderTrial]], collection: Collection, out: Path, tower: str
) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of languages against English, and of "all" against each language alone."""
    evaluations = {
        (model, language): [measured(trial, language, collection, out) for trial in trials]
        for model, trials in models.items()
        for language in models
        if language != ALL and model in (ALL, language)
    }
    photos = {
        key: np.stack([rsum_by_image(evaluation) for evaluation in several]) for key, several in evaluations.items()
    }
    test = collection.split(TEST)
    alone, joint = [], []
    for language in (language for language in models if language != ALL):
        name = LANGUAGES[language]
        texts = test.keep_languages(language).captions["text"].to_pylist()
        words = unknown_words(models[language][0], texts, out)
        several = evaluations[language, language]
        hits = [[100 * each.mean(task, f"hit@{k}") for each in several] for task in TASKS for k in CUTOFFS]
        curves = [read_json(trial.folder(out) / CHECKPOINT / CURVE_FILE) for trial in models[language]]
        seconds = np.mean([sum(epoch["seconds"] for epoch in curve) for curve in curves])
        own = photos[language, language]
        row = [name, *map(spread, hits), spread(own.mean(1)), *_apart(own - photos["en", "en"], language != "en")]
        about = ["", ""] if words is None else [f"{words[0]:,}", f"{100 * words[1]:.1f} %"]
        alone.append([*row, *about, f"{seconds:,.0f}"])
        gain = photos[ALL, language] - photos[language, language]
        several = evaluations[ALL, language]
        hits = [[100 * each.mean(task, f"hit@{k}") for each in several] for task in TASKS for k in CUTOFFS]
        joint.append([name, *map(spread, hits), spread(photos[ALL, language].mean(1)), *_apart(gain, True)])
    for rows in (alone, joint):
        p = adjust([float(row[9]) if row[9] else float("nan") for row in rows])
        for row, value in zip(rows, p, strict=True):
            row[9] = "" if np.isnan(value) else f"{value:.2g}"
    return alone, joint


def _apart(differences: Floats, other: bool) -> list[str]:
    """The mean difference with its interval, and the uncorrected p."""
    if not other:
        return ["", ""]
    low, high = difference(differences, 0).ends
    return [f"{differences.mean():+.1f} ({low:+.1f} to {high:+.1f})", repr(difference(differences, 0).p)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k-languages"))
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tower", choices=TOWERS, nargs="+", default=list(TOWERS))
    parser.add_argument("--languages", choices=LANGUAGES, nargs="+", default=list(LANGUAGES), help="with English")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of every recipe")
    parser.add_argument("--quick", action="store_true", help="300 photos, one epoch, seeds 0 and 1; into OUT-quick")
    options: Any = parser.parse_args(arguments)
    out = options.out.with_name(options.out.name + "-quick") if options.quick else options.out
    if "en" not in options.languages:
        parser.error("--languages: English is what the others are compared with")
    seeds = [0, 1] if options.quick else options.seeds
    collection = written(data_directory(), out, 300 if options.quick else None)
    counts = {split: len(collection.split(split)) for split in collection.splits}
    print(f"{len(collection):,} photos with captions in {len(LANGUAGES)} languages: {counts}")
    study = {tower: {language: [trial_of(tower, language, seed, out, options.quick, options.set) for seed in seeds]
                     for language in (*options.languages, ALL)} for tower in options.tower}  # fmt: skip
    every = [trials for models in study.values() for trials in models.values()]
    run_trials([trial for some in zip(*every, strict=True) for trial in some], out, jobs=options.jobs)
    cuts = [f"{task} @{k}" for task in TASKS for k in CUTOFFS]
    for tower, models in study.items():
        alone, joint = table(models, collection, out, tower)
        head = ["language", *cuts, "rsum", "Δ rsum to English", "p (Holm)", "words", "unknown", "seconds"]
        show(f"{tower}: a model for each language, test photos, mean ± sd over seeds", head, alone, out / f"{tower}.md")
        head = ["language", *cuts, "rsum", "Δ rsum to its own model", "p (Holm)"]
        show(f"{tower}: one model for all languages", head, joint, out / f"{tower}-all.md")


if __name__ == "__main__":
    main()
