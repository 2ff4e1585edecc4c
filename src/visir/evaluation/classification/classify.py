"""`visir.classify`: measure a model as a classifier, or label pictures with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections import open_source
from visir.collections.tables import is_table
from visir.display import counted
from visir.encoders.sources import is_picture
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults, require
from visir.evaluation.classification.class_names import (
    PLAIN,
    PREFIX,
    ClassNames,
    Features,
    Templates,
    cosines,
    free_names,
    list_name,
    resolve_names,
    templates_of,
    unit,
    written_names,
)
from visir.evaluation.classification.labelling import (
    CAPTION,
    LabelledPictures,
    PictureLabels,
    find_truth,
    label_pictures,
)
from visir.evaluation.classification.result import Classification, Codes, Key, Predictions, judged
from visir.evaluation.classification.tip_adapter import (
    ALPHA,
    ALPHAS,
    BETA,
    BETAS,
    FIXED,
    FOLDS,
    SCALE,
    STRENGTHS,
    VALIDATION_SHOTS,
    Matrix,
    Shots,
    Tuning,
    check_tuning,
    first_of_each,
    probe_scores,
    shuffled_by_class,
    tip_scores,
)
from visir.evaluation.sources import check_open_options
from visir.progress import Progress
from visir.records import Collection, Items

# Few-shot classifiers over several draws of shots.

FEW_SHOT = ("linear-probe", "tip-adapter", "tip-adapter-f")
ALL = -1
"""Stands for all training pictures."""


@dataclass(frozen=True)
class FewShotPlan:
    """What is drawn and fitted."""

    methods: tuple[str, ...]  # some of `FEW_SHOT`
    shots: tuple[int, ...]  # pictures of each class, in ascending order; `ALL` for all
    draws: int  # how often shots are drawn
    tuning: Tuning  # what settings are chosen on
    seed: int  # the seed


@dataclass(frozen=True, eq=False)
class DrawnPictures:
    """The rows that each draw takes, by class in random order, and the vectors of the rows that are used."""

    codes: Codes  # (n,) the classes of all pictures
    orders: Sequence[Sequence[Codes]]  # for each draw and class the rows in the order of the draw
    vectors: NDArray[Any]  # (used, d) vectors
    places: Codes  # (n,) the row of each picture in `vectors`; -1 for unused and broken ones
    items: Items  # the n pictures

    def drawn(self, most: int | None) -> Codes:
        """The rows that any draw takes; without broken pictures."""
        rows: Codes = np.unique(np.concatenate([first_of_each(order, most) for order in self.orders]))
        used: Codes = rows[self.places[rows] >= 0]
        return used

    def take(self, draw: int, count: int | None) -> tuple[NDArray[Any], Codes]:
        """Vectors and classes of the first few pictures of each class of a draw."""
        rows = first_of_each(self.orders[draw], count)
        rows = rows[self.places[rows] >= 0]
        return self.vectors[self.places[rows]], self.codes[rows]


def draw_pictures(features: Features, pictures: LabelledPictures, plan: FewShotPlan, most: int | None) -> DrawnPictures:
    """Draw pictures and embed those that are used; all of them where that costs little."""
    ids = pictures.collection.images["id"].to_pylist()
    draws = plan.draws if most is not None else 1
    orders = [shuffled_by_class(ids, pictures.codes, len(pictures.classes), plan.seed, draw) for draw in range(draws)]
    orders *= plan.draws if most is None else 1
    rows = np.unique(np.concatenate([first_of_each(order, most) for order in orders]))
    items = pictures.items
    if len(rows) * 2 >= len(items) or features.at_hand(items):
        rows = np.arange(len(items))
    embeddings = features.of_pictures(items.take(rows))
    places = np.full(len(items), -1, np.int64)
    place_of = {name: row for row, name in enumerate(ids)}
    places[[place_of[name] for name in embeddings.ids.to_pylist()]] = np.arange(len(embeddings))
    return DrawnPictures(pictures.codes, orders, embeddings.vectors, places, items)


def count_measured(features: Features, training: DrawnPictures, most: int | None, measured: Items, vectors: Any) -> int:
    """How many of the pictures that are drawn are also among those that are measured (`Features.marks`)."""
    # vectors: (n, d) their vectors.
    rows = training.drawn(most)
    known = set(features.marks(measured, vectors))
    marks = features.marks(training.items.take(rows), training.vectors[training.places[rows]])
    return sum(mark in known for mark in marks)


def few_shot(
    plan: FewShotPlan,
    training: DrawnPictures,
    validation: DrawnPictures | None,
    pictures: NDArray[Any],
    truth: Codes,
    class_vectors: NDArray[Any] | None,
    classes: int,
) -> dict[tuple[str, int], Predictions]:
    """Fit every method to every draw, and predict."""
    # pictures: (n, d) vectors of the pictures that are measured.
    # truth: (n,) their classes.
    # class_vectors: (classes, d) unit vectors of the classes; None for a model without texts.
    tests = {False: _unit32(pictures), True: np.asarray(pictures, np.float32)}
    text = None if class_vectors is None else class_vectors.astype(np.float32)
    results: dict[tuple[str, int], list[Predictions]] = {
        (method, count): [] for method in plan.methods for count in plan.shots
    }
    total = sum(1 if count == ALL else plan.draws for count in plan.shots) * len(plan.methods)
    with Progress("fitting", total, "classifiers") as advance:
        for count in plan.shots:
            for draw in range(1 if count == ALL else plan.draws):
                for method in plan.methods:
                    raw = method == "linear-probe" and plan.tuning == "clip"
                    number = None if count == ALL else count
                    vectors, codes = training.take(draw, number)
                    judged_vectors = judged_codes = None
                    if validation is not None:
                        most = None if number is None else min(number, VALIDATION_SHOTS)
                        judged_vectors, judged_codes = validation.take(draw, most)
                        judged_vectors = np.asarray(judged_vectors, np.float32) if raw else _unit32(judged_vectors)
                    made = np.asarray(vectors, np.float32) if raw else _unit32(vectors)
                    shots = Shots(made, codes, classes, judged_vectors, judged_codes, plan.tuning != "fixed")
                    if method == "linear-probe":
                        scores, setting = probe_scores(shots, tests[raw], clip=raw)
                    else:
                        trained = method == "tip-adapter-f"
                        scores, setting = tip_scores(shots, tests[False], text, trained=trained, seed=plan.seed + draw)
                    results[method, count].append(judged(scores, truth, setting))
                    advance()
    return {key: Predictions.stacked(draws) for key, draws in results.items()}


def _unit32(vectors: NDArray[Any]) -> Matrix:
    unit_vectors: Matrix = unit(vectors).astype(np.float32)
    return unit_vectors


# The protocol of a classification: everything on which its numbers depend.


def protocol_of(
    part: LabelledPictures,
    labelled: LabelledPictures,
    split: str | None,
    names: ClassNames,
    templates: Templates,
    features: Features,
    shots: Sequence[int],
    draws: int,
    tuning: str,
    train: str,
    validation: str,
    seed: int,
    keys: Sequence[Key],
) -> tuple[tuple[str, str], ...]:
    """(label, value) rows."""
    collection = labelled.collection
    methods = {method for method, _ in keys}
    in_prompts = f"names in prompts from {names.origin}"
    rows = [
        ("pictures", f"{collection.name} · {part.collection.fingerprint[:12]}: {len(part.codes):,}"),
        ("split", split or "all"),
        ("classes", f"{len(names):,}, from {labelled.where}" + (f"; {in_prompts}" if features.has_texts else "")),
        ("model", features.name),
    ]
    if "zero-shot" in methods:
        ensemble = len(templates.texts) > 1
        rows.append(("prompts", f"{templates}" + ("; mean of unit vectors, to length 1 again" if ensemble else "")))
        if "zero-shot, plain" in methods:
            rows.append(("plain reading", f"one template: {PLAIN!r}"))
    if methods & set(FEW_SHOT):
        counts = ", ".join("all" if count == ALL else str(count) for count in shots)
        rows += [
            ("shots", f"{counts} of each class; fewer shots are among more"),
            ("drawn", f"{draws} times from {train}, seed {seed}"),
            ("settings", _settings(tuning, validation)),
        ]
    if "linear-probe" in methods:
        rows.append(("linear-probe", _probe(tuning)))
    if methods & {"tip-adapter", "tip-adapter-f"}:
        text = f"{SCALE:g} × cosine with the class vectors" if features.has_texts else "no texts: the cache alone"
        grid, usual = f"β of {_span(BETAS)}", f"β = {BETA:g}"
        if features.has_texts:
            grid, usual = f"α of {_span(ALPHAS)}, {grid}", f"α = {ALPHA:g}, {usual}"
        rows.append(("tip-adapter", f"{text}; {grid}; {usual} where not chosen; one vector for each shot, no crops"))
    rows += [
        ("ties", "against the model"),
        (
            "intervals",
            "95 %: of one draw Wilson over pictures; of several Student's t over draws",
        ),
    ]
    return tuple(rows)


def _settings(tuning: str, validation: str) -> str:
    if tuning == "fixed":
        return "fixed"
    if validation:
        return f"chosen on {validation}: as many pictures of each class as shots, at most {VALIDATION_SHOTS}"
    return f"cross-validated on the shots, at most {FOLDS} folds; fixed with one shot"


def _probe(tuning: str) -> str:
    if tuning == "clip":
        return (
            "as CLIP: vectors as the model gives them, C from 1e-6 to 1e6 by halving, by accuracy; fitted anew to all"
        )
    return (
        f"logistic regression on unit vectors, C of {_span(STRENGTHS)} by likelihood, {FIXED:g} where it is not chosen"
    )


def _span(values: Sequence[float]) -> str:
    return f"{values[0]:g} … {values[-1]:g}"


# Opening pictures with classes: whatever `visir.open` takes, and tables without captions.


def open_pictures(source: Any, *, images: Any = None, truth: str | None = None) -> Collection:
    """Open pictures."""
    named = source if isinstance(source, (str, Path)) else ""
    path = Path(str(named).partition("?")[0])
    table = "table" if truth is not None and named and is_table(path) and path.is_file() else None
    if is_picture(source):
        source, named = [source], ""
    if are_pairs(source) and all((hasattr(label, "__index__") and not isinstance(label, bool)) for _, label in source):
        source = [(picture, str(label)) for picture, label in source]
    try:
        opened = open_source(source, images=images, format=table) if named else open_source(source, images=images)
    except CollectionError as fault:
        if truth is None and named and is_table(path) and path.is_file():
            hint = f"truth=COLUMN (--truth COLUMN) says which column has the classes; {fault.hint}"
            raise CollectionError(fault.message, hint=hint) from fault
        raise
    if not isinstance(opened, Collection):
        raise ConfigurationError(
            f"classify goes with pictures and their classes; this is a {type(opened).__name__}.",
            hint='visir.classify("photos/", model), with a folder for each class',
        )
    return opened


def are_pairs(source: Any) -> bool:
    """Whether it is a list of (picture, class)."""
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in source)
    )


BESIDE = "zeroshot_classification_templates.txt"
"""The file of templates that CLIP_benchmark keeps beside the pictures of a data set."""
METHODS = ("zero-shot", *FEW_SHOT)


def classify(
    source: Any,
    model: Any,
    *,
    classes: Any = None,
    templates: Any = None,
    shots: int | str | Sequence[int | str] = 0,
    draws: int = 5,
    methods: Sequence[str] | str | None = None,
    tuning: Tuning = "auto",
    truth: str | None = None,
    split: str | None = None,
    train: str = "train",
    seed: int = 0,
    images: Any = None,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> Classification | PictureLabels:
    """Measure a model as a classifier: zero-shot by prompts, and few-shot; or label pictures whose class is not known.

    Zero-shot is measured twice: with the plain template "a photo of a {}." and with `templates`, as CLIP does it (the
    mean of the unit vectors of all prompts of a class). Few-shot are a linear probe, Tip-Adapter and Tip-Adapter-F on
    frozen vectors. Only the pictures that are drawn are encoded, and vectors are kept in the store.

    Args:
        source: Pictures with classes: a folder with a folder for each class (`train/cat/1.jpg`), a table with a column
            of classes, a list of (picture, class), "torchvision:CIFAR10?root=FOLDER" or a data set object of
            torchvision, IDX files, "hf:NAME"; whatever `visir.open` takes. Pictures without classes are labelled.
        model: A model or its name; or {"image": {id: vector}, "text": {class: vector}}.
        classes: Class names for prompts: a list, "cat,dog", {class in the data: name}, a file, or a list of CLIP by
            name ("clip/food101"). None takes those of the data.
        templates: "clip/imagenet" and the like, "a photo of a {}.", a list, or a file. None takes CLIP's for the data
            set where there are any, else "clip/imagenet".
        shots: Training pictures of each class: 16, (1, 2, 4, 8, 16), "all"; 0 for zero-shot alone.
        draws: How often shots are drawn.
        methods: Some of "zero-shot", "linear-probe", "tip-adapter", "tip-adapter-f"; None takes all that can be had.
        tuning: What strength, α and β are chosen on: "auto", "validation", "cross-validation", "fixed", "clip". At most
            four pictures of each class of the split "val"; cross-validation on the shots; the usual values; the linear
            probe as CLIP does it.
        truth: Where the class of a picture stands: a column, "folder", "caption"; "none" labels all. Default: finds
            out. None finds out.
        split: The split that is measured; None is "test", else "val", else everything.
        train: The split that shots are drawn from.
        seed: Another seed draws other shots.
        images: Where the pictures are, as of `visir.open`.
        device: Where a model that is named is run.
        dtype: Its arithmetic.
        **encoding: Options of `visir.encode`.

    Returns:
        A `Classification`: accuracies with intervals, confusions, the protocol. Without known classes `PictureLabels`:
        the best classes of each picture.

    Raises:
        CollectionError: The source cannot be opened, or there are no classes.
        ConfigurationError: Names do not fit the classes, or options do not fit together.
        EncoderError: The model takes no texts, and nothing else was asked for.

    Example:
        >>> import visir
        >>> from PIL import Image
        >>> pictures = [(Image.new("RGB", (8, 8), colour), colour) for colour in ("red", "blue") * 4]
        >>> def vectors(images):
        ...     return [image.resize((1, 1)).getpixel((0, 0)) for image in images]
        >>> def texts(prompts):
        ...     return [[255, 0, 1] if "red" in prompt else [1, 0, 255] for prompt in prompts]
        >>> visir.classify(pictures, visir.Encoder.wrap("toy", image=vectors, text=texts)).accuracy().top1.mean
        1.0
    """
    check_open_options(encoding, "classify")
    counts = _checked_options(shots, draws, methods, tuning)
    opened = open_pictures(source, images=images, truth=truth)
    if truth is None and classes is None and are_pairs(source):
        truth = CAPTION
    features = Features.of(model, device=device, dtype=dtype, **encoding)
    labelled = find_truth(opened, truth, _letters_of(classes))
    if labelled is None:
        return _labels(opened, features, classes, templates, split, counts)
    names = _names(classes, labelled)
    wanted = _methods(methods, features, counts)
    prompts = templates_of(templates if templates is not None else _usual_templates(labelled, classes))
    notes = _notes_on_names(labelled.classes)
    labelled, others = labelled.among(names.classes), labelled
    measured = split if split is not None else next((name for name in ("test", "val") if name in opened.splits), None)
    part = labelled.part(measured)
    if not len(part.codes):
        raise CollectionError(f"{opened.name}: no picture with a class in {measured or 'it'}.")
    left_out = len(others.part(measured).codes) - len(part.codes)
    test = features.of_pictures(part.items)
    broken = len(part.codes) - len(test)
    if broken:
        part = _without_broken(part, test.ids.to_pylist())
    results: dict[tuple[str, int], Predictions] = {}
    class_vectors = None
    if features.has_texts and (wanted - {"linear-probe"}):
        class_vectors = features.of_classes(names, prompts)
    if "zero-shot" in wanted:
        assert class_vectors is not None
        if features.encoder is not None and prompts.texts != (PLAIN,):
            plain = features.of_classes(names, Templates("own", (PLAIN,)))
            results["zero-shot, plain", 0] = judged(cosines(test.vectors, plain), part.codes)
        results["zero-shot", 0] = judged(cosines(test.vectors, class_vectors), part.codes)
    notes += _notes(others.without_class(measured), left_out, broken)
    validation = ""
    if counts and wanted & set(FEW_SHOT):
        plan = FewShotPlan(tuple(name for name in FEW_SHOT if name in wanted), counts, draws, tuning, seed)
        drawn, validation, more = _drawn(labelled, features, plan, train, measured)
        notes += more
        most = None if ALL in counts else max(counts)
        leaked = count_measured(features, drawn[0], most, part.items, test.vectors)
        if leaked:
            same = "vectors" if features.encoder is None else "bytes"
            notes.append(
                f"{counted(leaked, 'pictures')} drawn from {train} {'is' if leaked == 1 else 'are'} also measured (the "
                f"same {same}): few-shot accuracy may be too high"
            )
        results |= few_shot(plan, *drawn, test.vectors, part.codes, class_vectors, len(names))
    protocol = protocol_of(
        part,
        labelled,
        measured,
        names,
        prompts,
        features,
        counts,
        draws,
        tuning,
        train,
        validation,
        seed,
        list(results),
    )
    return Classification(
        opened.name,
        features.name,
        names.classes,
        tuple(several[0] for several in names.names),
        tuple(part.collection.images["id"].to_pylist()),
        part.codes,
        results,
        protocol,
        tuple(notes),
        seed,
    )


def _checked_options(shots: Any, draws: int, methods: Any, tuning: str) -> tuple[int, ...]:
    """The numbers of shots in ascending order, all training pictures last; none for zero-shot alone."""
    check_tuning(tuning)
    given: list[Any] = [shots] if isinstance(shots, (int, str)) else list(shots)
    if isinstance(shots, str) and "," in shots:
        given = shots.split(",")
    counts = []
    faults = []
    for value in given:
        text = str(value).strip().lower()
        if text == "all":
            counts.append(ALL)
        elif text.isdecimal():
            counts.append(int(text))
        else:
            faults.append(f"shots {value!r} is no number of pictures from 0, and not 'all'")
    if draws < 1:
        faults.append(f"draws must be at least 1, not {draws}")
    given_methods = [methods] if isinstance(methods, str) else methods or ()
    unknown = [method for method in given_methods if method not in METHODS]
    faults += [f"unknown method {method!r} ({nearest(method, METHODS)})" for method in unknown]
    raise_faults(ConfigurationError, "classify", faults, hint="shots=(1, 2, 4, 8, 16), draws=5")
    few = sorted({count for count in counts if count > 0})
    return (*few, ALL) if ALL in counts else tuple(few)


def _methods(methods: Any, features: Features, counts: Sequence[int]) -> set[str]:
    """The methods that are asked for; all that the model and the options allow where none is."""
    if methods is not None:
        wanted = {methods} if isinstance(methods, str) else set(methods)
        if wanted & set(FEW_SHOT) and not counts:
            raise ConfigurationError(
                f"{', '.join(sorted(wanted & set(FEW_SHOT)))} needs training pictures.", hint="shots=16 (--shots 16)"
            )
    else:
        zero_shot = ["zero-shot"] if features.has_texts or not counts else []
        wanted = {*zero_shot, *(FEW_SHOT if counts else ())}
    if "zero-shot" in wanted and not features.has_texts:
        if features.encoder is not None:
            raise features.encoder.cannot("text")
        raise ConfigurationError(
            "zero-shot needs vectors of classes.",
            hint="{'image': …, 'text': {class: vector}}",
            code="zero-shot-needs-vectors-classes",
        )
    if "linear-probe" in wanted:  # before an hour of encoding, not after
        require("sklearn", extra="classification", purpose="a linear probe")
    return wanted


def _letters_of(classes: Any) -> list[str]:
    """The given names in small letters and digits, and the labels they are given for."""
    if classes is None:
        return []
    names, _ = written_names(classes)
    texts = [*names, *(name for several in names.values() for name in several)] if isinstance(names, dict) else names
    flat = [part for text in texts for part in ((text,) if isinstance(text, str) else text)]
    return ["".join(letter for letter in text.casefold() if letter.isalnum()) for text in flat]


def _names(classes: Any, labelled: LabelledPictures) -> ClassNames:
    """The names of the classes; those of CLIP for a data set of torchvision whose classes are numbers."""
    own = _clip_list(labelled)
    if classes is None and own and all(label.isdecimal() for label in labelled.classes):
        return resolve_names(PREFIX + own, labelled.classes, ordered=True)
    return resolve_names(classes, labelled.classes, ordered=labelled.ordered)


def _usual_templates(labelled: LabelledPictures, classes: Any) -> str | Path:
    """The templates where none are given: those of the class names, those beside the pictures, or those of CLIP."""
    if isinstance(classes, str) and classes.startswith(PREFIX):
        return classes
    beside = labelled.collection.root / BESIDE
    if beside.is_file():
        return beside
    return PREFIX + (_clip_list(labelled) or "imagenet")


def _clip_list(labelled: LabelledPictures) -> str | None:
    """The name of CLIP's list for a data set that is known by its name."""
    collection = labelled.collection
    known = collection.source.startswith(("torchvision ", "IDX files", "Hugging Face"))
    return list_name(collection.name) if known else None


def _drawn(
    labelled: LabelledPictures, features: Features, plan: FewShotPlan, train: str, measured: str | None
) -> tuple[tuple[Any, Any], str, list[str]]:
    """What shots and validation pictures are drawn from, the split of the latter, and notes."""
    collection = labelled.collection
    rule = "split_by=random(0.5,0.5,seed=0)"
    hint = f"?{rule} behind the path makes train and test"
    training_splits = set(train.split("+"))
    missing = training_splits - set(collection.splits)
    if missing:
        known = [name for name in collection.splits if name]
        near = f"{nearest(min(missing), known)}; {hint}" if known else hint
        raise CollectionError(
            f"{collection.name}: no split {min(missing)!r} to draw shots from.", hint=near, code="no-split-draw-shots"
        )
    if measured in (None, "all") or training_splits & set((measured or "").split("+")):
        raise CollectionError(
            f"{collection.name}: shots of {train!r} would be among what is measured.",
            hint=hint,
            code="shots-among-measured",
        )
    pool = labelled.part(train)
    most = None if ALL in plan.shots else max(plan.shots)
    training = draw_pictures(features, pool, plan, most)
    available = np.bincount(pool.codes, minlength=len(pool.classes))
    notes = []
    wanted = max(plan.shots)
    few = [f"{name} ({count:,})" for name, count in zip(pool.classes, available, strict=True) if count < wanted]
    if few:
        listed = ", ".join(few[:8]) + (f" and {len(few) - 8:,} more" if len(few) > 8 else "")
        notes.append(f"fewer pictures than {wanted} shots, all are taken: {listed}")
    has_validation = "val" in collection.splits and "val" not in {*training_splits, *(measured or "").split("+")}
    if plan.tuning == "validation" and not has_validation:
        raise CollectionError(
            f"{collection.name}: no split 'val' to choose settings on.",
            hint="tuning='auto'",
            code="no-split-val-choose",
        )
    if not has_validation or plan.tuning in ("cross-validation", "fixed"):
        return (training, None), "", notes
    most = None if most is None else min(most, VALIDATION_SHOTS)
    return (training, draw_pictures(features, labelled.part("val"), plan, most)), "val", notes


def _labels(
    opened: Collection, features: Features, classes: Any, templates: Any, split: str | None, counts: Sequence[int]
) -> PictureLabels:
    if classes is None:
        raise CollectionError(
            f"{opened.name}: no classes: no column called class or label, and no folder for each class.",
            hint='classes="cat,dog" labels the pictures; truth= says where their classes stand (truth="caption": the '
            "captions are the classes); a table with classes has one row for each picture",
            code="no-classes",
        )
    if counts:
        raise CollectionError(
            f"{opened.name}: shots need pictures with classes.",
            hint="truth= says where they stand",
            code="shots-need-pictures-classes",
        )
    names = free_names(classes)
    usual = classes if isinstance(classes, str) and classes.startswith(PREFIX) else f"{PREFIX}imagenet"
    prompts = templates_of(templates if templates is not None else usual)
    return label_pictures(opened.split(split), features, names, prompts)


def _without_broken(part: LabelledPictures, ids: Sequence[str]) -> LabelledPictures:
    present = set(ids)
    keep = np.array([identifier in present for identifier in part.collection.images["id"].to_pylist()])
    return LabelledPictures(part.collection.keep_images(keep), part.codes[keep], part.classes, part.ordered, part.where)


def _notes_on_names(classes: Sequence[str]) -> list[str]:
    """A note on class names that differ only in capitals: they may be one class."""
    by_letters: dict[str, list[str]] = {}
    for name in classes:
        by_letters.setdefault(name.casefold(), []).append(name)
    alike = [" and ".join(map(repr, several)) for several in by_letters.values() if len(several) > 1]
    return [f"classes differ only in capitals, each counts as one of its own: {', '.join(alike)}"] if alike else []


def _notes(without_class: int, left_out: int, broken: int) -> list[str]:
    notes = []
    if without_class:
        notes.append(f"{counted(without_class, 'pictures')} without a class left out")
    if left_out:
        notes.append(f"{left_out:,} pictures of other classes are left out")
    if broken:
        notes.append(f"{counted(broken, 'pictures')} left out that cannot be read")
    return notes
