"""`visir.classify`: measure a model as a classifier, or label pictures with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from visir.collections import open_source
from visir.collections.tables import is_table
from visir.display import counted
from visir.encoders.sources import is_picture
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults, require
from visir.evaluation.classification.class_names import (
    PLAIN,
    PREFIX,
    SCALE,
    ClassNames,
    Features,
    Matrix,
    Templates,
    cosines,
    free_names,
    letters,
    list_name,
    resolve_names,
    templates_of,
    written_names,
)
from visir.evaluation.classification.few_shot import (
    ALPHA,
    ALPHAS,
    BETA,
    BETAS,
    FEW_SHOT,
    FIXED,
    FOLDS,
    STRENGTHS,
    VALIDATION_SHOTS,
    FewShotPlan,
    Tuning,
    draw_pictures,
    few_shot,
)
from visir.evaluation.classification.labelling import (
    CAPTION,
    LabelledPictures,
    PictureLabels,
    find_truth,
    label_pictures,
)
from visir.evaluation.classification.result import ALL, Classification, Key, Predictions, judged
from visir.evaluation.sources import check_open_options
from visir.records import Collection

# The protocol of a classification: everything on which its numbers depend.


def protocol_of(
    part: LabelledPictures,
    labelled: LabelledPictures,
    split: str | None,
    names: ClassNames,
    templates: Templates,
    features: Features,
    plan: FewShotPlan,
    validation: str,
    keys: Iterable[Key],
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
        counts = ", ".join("all" if count == ALL else str(count) for count in plan.shots)
        rows += [
            ("shots", f"{counts} of each class; fewer shots are among more"),
            ("drawn", f"{plan.draws} times from {plan.train}, seed {plan.seed}"),
            ("settings", _settings(plan.tuning, validation)),
        ]
    if "linear-probe" in methods:
        rows.append(("linear-probe", _probe(plan.tuning)))
    if methods & {"tip-adapter", "tip-adapter-f"}:
        text = f"{SCALE:g} × cosine with the class vectors" if features.has_texts else "no texts: the cache alone"
        grid, usual = f"β of {_span(BETAS)}", f"β = {BETA:g}"
        if features.has_texts:
            grid, usual = f"α of {_span(ALPHAS)}, {grid}", f"α = {ALPHA:g}, {usual}"
        rows.append(("tip-adapter", f"{text}; {grid}; {usual} where not chosen; one vector for each shot, no crops"))
    intervals = "95 %: of one draw Wilson over pictures; of several Student's t over draws"
    return (*rows, ("ties", "against the model"), ("intervals", intervals))


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
    all_labelled = find_truth(opened, truth, _letters_of(classes))
    if all_labelled is None:
        return _labels(opened, features, classes, templates, split, counts)
    names = _names(classes, all_labelled)
    wanted = _methods(methods, features, counts)
    prompts = templates_of(templates if templates is not None else _usual_templates(all_labelled, classes))
    labelled = all_labelled.among(names.classes)
    measured = split if split is not None else next((name for name in ("test", "val") if name in opened.splits), None)
    part = labelled.part(measured)
    if not len(part.codes):
        raise CollectionError(f"{opened.name}: no picture with a class in {measured or 'it'}.")
    test = features.of_pictures(part.items)
    notes = _notes(all_labelled, measured, len(part.codes), len(test))
    part = part.only(test.ids)
    results: dict[Key, Predictions] = {}
    class_vectors: Matrix | None = None
    if features.has_texts and (wanted - {"linear-probe"}):
        class_vectors = features.of_classes(names, prompts)
    if "zero-shot" in wanted:
        assert class_vectors is not None
        if features.encoder is not None and prompts.texts != (PLAIN,):
            plain = features.of_classes(names, Templates("own", (PLAIN,)))
            results["zero-shot, plain", 0] = judged(cosines(test.vectors, plain), part.codes)
        results["zero-shot", 0] = judged(cosines(test.vectors, class_vectors), part.codes)
    plan = FewShotPlan(tuple(name for name in FEW_SHOT if name in wanted), counts, draws, tuning, seed, train)
    validation = ""
    if counts and plan.methods:
        validation = _check_drawn(labelled.collection, plan, measured)
        pool = labelled.part(train)
        notes += _notes_on_shots(pool, max(counts))
        training = draw_pictures(features, pool, plan, plan.most)
        held_out = None
        if validation:
            most = None if plan.most is None else min(plan.most, VALIDATION_SHOTS)
            held_out = draw_pictures(features, labelled.part(validation), plan, most)
        if leaked := training.among(features, plan.most, part.items, test.vectors):
            same = "vectors" if features.encoder is None else "bytes"
            notes.append(
                f"{counted(leaked, 'pictures')} drawn from {train} {'is' if leaked == 1 else 'are'} also measured (the "
                f"same {same}): few-shot accuracy may be too high"
            )
        results |= few_shot(plan, training, held_out, test.vectors, part.codes, class_vectors, len(names))
    return Classification(
        opened.name,
        features.name,
        names.classes,
        tuple(several[0] for several in names.names),
        tuple(test.ids.to_pylist()),
        part.codes,
        results,
        protocol_of(part, labelled, measured, names, prompts, features, plan, validation, results),
        tuple(notes),
        seed,
    )


def _checked_options(shots: Any, draws: int, methods: Any, tuning: str) -> tuple[int, ...]:
    """The numbers of shots in ascending order, all training pictures last; none for zero-shot alone."""
    if tuning not in get_args(Tuning):
        known = get_args(Tuning)
        raise ConfigurationError(f"unknown tuning {tuning!r}", hint=nearest(tuning, known), code="unknown-tuning")
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
    return [letters(part) for text in texts for part in ((text,) if isinstance(text, str) else text)]


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


def _check_drawn(collection: Collection, plan: FewShotPlan, measured: str | None) -> str:
    """Refuse splits of which nothing can be drawn; the split that settings are chosen on, "" for none."""
    hint = "?split_by=random(0.5,0.5,seed=0) behind the path makes train and test"
    training, others = set(plan.train.split("+")), set((measured or "").split("+"))
    missing = training - set(collection.splits)
    if missing:
        known = [name for name in collection.splits if name]
        near = f"{nearest(min(missing), known)}; {hint}" if known else hint
        raise CollectionError(
            f"{collection.name}: no split {min(missing)!r} to draw shots from.", hint=near, code="no-split-draw-shots"
        )
    if measured in (None, "all") or training & others:
        raise CollectionError(
            f"{collection.name}: shots of {plan.train!r} would be among what is measured.",
            hint=hint,
            code="shots-among-measured",
        )
    has_validation = "val" in collection.splits and "val" not in training | others
    if plan.tuning == "validation" and not has_validation:
        raise CollectionError(
            f"{collection.name}: no split 'val' to choose settings on.",
            hint="tuning='auto'",
            code="no-split-val-choose",
        )
    return "val" if has_validation and plan.tuning not in ("cross-validation", "fixed") else ""


def _notes_on_shots(pool: LabelledPictures, wanted: int) -> list[str]:
    available = np.bincount(pool.codes, minlength=len(pool.classes))
    few = [f"{name} ({count:,})" for name, count in zip(pool.classes, available, strict=True) if count < wanted]
    listed = ", ".join(few[:8]) + (f" and {len(few) - 8:,} more" if len(few) > 8 else "")
    return [f"fewer pictures than {wanted} shots, all are taken: {listed}"] if few else []


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


def _notes(labelled: LabelledPictures, split: str | None, measured: int, readable: int) -> list[str]:
    """What a reader must know of the classes, and of the pictures that are left out."""
    by_letters: dict[str, list[str]] = {}
    for name in labelled.classes:
        by_letters.setdefault(name.casefold(), []).append(name)
    alike = [" and ".join(map(repr, several)) for several in by_letters.values() if len(several) > 1]
    others, broken = len(labelled.part(split).codes) - measured, measured - readable
    without = labelled.without_class(split)
    notes = []
    if alike:
        notes.append(f"classes differ only in capitals, each counts as one of its own: {', '.join(alike)}")
    if without:
        notes.append(f"{counted(without, 'pictures')} without a class left out")
    if others:
        notes.append(f"{others:,} pictures of other classes are left out")
    if broken:
        notes.append(f"{counted(broken, 'pictures')} left out that cannot be read")
    return notes
