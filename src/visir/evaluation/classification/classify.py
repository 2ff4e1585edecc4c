"""`visir.classify`: measure a model as a classifier, or label pictures with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from visir.display import counted
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults, require
from visir.evaluation.classification.accuracy import Predictions, judged
from visir.evaluation.classification.class_names import ClassNames, free_names, resolve_names, written_names
from visir.evaluation.classification.clip_prompts import PREFIX, list_name
from visir.evaluation.classification.features import Features
from visir.evaluation.classification.few_shot import ALL, FEW_SHOT, FewShotPlan, count_measured, draw_pictures, few_shot
from visir.evaluation.classification.labelling import PictureLabels, label_pictures
from visir.evaluation.classification.opening import are_pairs, open_pictures
from visir.evaluation.classification.protocol import protocol_of
from visir.evaluation.classification.result import Classification
from visir.evaluation.classification.templates import PLAIN, Templates, templates_of
from visir.evaluation.classification.truth import CAPTION, LabelledPictures, find_truth
from visir.evaluation.classification.tuning import VALIDATION_SHOTS, Tuning, check_tuning
from visir.evaluation.classification.zero_shot import cosines
from visir.evaluation.sources import check_open_options
from visir.records import Collection

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
        tuning: What strength, α and β are chosen on: "validation" (at most four pictures of each class of the split
            "val"), "cross-validation" on the shots, "fixed" for the usual values, "clip" for the linear probe as CLIP
            does it. "auto" is "validation" where there is that split, else "cross-validation"; with one shot "fixed".
        truth: Where the class of a picture stands: a column, "folder", "caption"; "none" labels all. None finds out.
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
    measured = _measured_split(opened, split, bool(counts))
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


def _measured_split(collection: Collection, split: str | None, few: bool) -> str | None:
    if split is not None:
        return split
    return next((name for name in ("test", "val") if name in collection.splits), None)


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
