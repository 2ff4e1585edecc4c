"""Class names and templates become prompts, and prompts the vectors of classes."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections.images import picture_digests
from visir.encoders import encode_items, load
from visir.encoders.base import Encoder
from visir.encoders.encoding import is_stored
from visir.encoders.forms import as_dense
from visir.errors import ConfigurationError, EmbeddingError, nearest
from visir.evaluation.systems.given import vectors_by_side
from visir.files import is_there, read_json, read_lines
from visir.records import Embeddings, Items, strings

# The class names and templates of CLIP (Radford et al., 2021), by the name of the data set.

PREFIX = "clip/"
_FILE = Path(__file__).with_name("clip_prompts.json")
_OTHER_NAMES = {
    "dtd": "describabletextures",
    "fer2013": "facialemotionrecognition2013",
    "pcam": "patchcamelyon",
    "pets": "oxfordpets",
    "oxfordiiitpet": "oxfordpets",
    "renderedsst2": "sst2",
    "aircraft": "fgvcaircraft",
    "cars": "stanfordcars",
    "voc2007": "pascalvoc2007",
    "imagenet1k": "imagenet",
    "clevrclassification": "clevrcounts",
    "imagenet7": "imagenet-7",
}
"""Other names of the same data sets, those of torchvision among them."""


@dataclass(frozen=True)
class ClipPrompts:
    """What CLIP used for one data set."""

    name: str  # as it is called here: "clip/food101"
    # The names of each class, in the order of the data set; a few classes have several names.
    classes: tuple[tuple[str, ...], ...]
    templates: tuple[str, ...]  # the templates, with {} where the class name stands


def clip_names() -> list[str]:
    """The names of all lists: "clip/birdsnap", …"""
    return [PREFIX + name for name in _lists()]


def clip_prompts(name: str) -> ClipPrompts:
    """The lists of a data set."""
    own = list_name(name.removeprefix(PREFIX))
    if own is None:
        raise ConfigurationError(
            f"unknown list {name!r} of class names and templates",
            hint=f"{nearest(name, clip_names())}; known: {', '.join(clip_names())}",
        )
    return _lists()[own]


def list_name(data_set: str) -> str | None:
    """The name of the list for a data set: "OxfordIIITPet" → "oxfordpets"; None where CLIP has none."""
    for name in (data_set.lower(), _OTHER_NAMES.get(letters(data_set), letters(data_set))):
        if name in _lists():
            return name
    return None


@lru_cache(maxsize=1)
def _lists() -> dict[str, ClipPrompts]:
    content = read_json(_FILE)
    lists = {}
    for name, entry in content.items():
        classes = entry["classes"] or content["imagenet"]["classes"]
        names = tuple((names,) if isinstance(names, str) else tuple(names) for names in classes)
        lists[name] = ClipPrompts(PREFIX + name, names, tuple(entry["templates"]))
    return lists


# Templates: sentences with a gap for the name of a class.

PLAIN = "a photo of a {}."
"""The template of the plain reading."""
_GAP = re.compile(r"\{\w*\}")


@dataclass(frozen=True)
class Templates:
    """Templates and where they come from."""

    name: str  # "clip/imagenet", a file, or "own"
    texts: tuple[str, ...]  # the templates

    def __str__(self) -> str:
        if len(self.texts) == 1:
            return f"{self.texts[0]!r}" + (f" ({self.name})" if self.name != "own" else "")
        return f"{len(self.texts)} templates of {self.name}" if self.name != "own" else f"{len(self.texts)} templates"


def templates_of(given: Any) -> Templates:
    """The templates that somebody names or writes."""
    if isinstance(given, Templates):
        return given
    if isinstance(given, Path) or (isinstance(given, str) and not _GAP.search(given)):
        if isinstance(given, str) and given.startswith(PREFIX):
            return Templates(clip_prompts(given).name, clip_prompts(given).templates)
        if not is_there(given) or not Path(given).is_file():
            raise ConfigurationError(
                f"{given}: neither a template nor a file of templates.",
                hint="a template has a gap for the class: 'a photo of a {}.'; lists of CLIP: clip/imagenet, …",
                code="neither-template-nor-file",
            )
        texts: Sequence[Any] = [line.strip() for line in read_lines(given) if line.strip()]
        return _checked(str(given), texts)
    return _checked("own", [given] if isinstance(given, str) else list(given))


def filled(template: str, name: str) -> str:
    """A template with a class name in its gap."""
    return _GAP.sub(lambda gap: name, template)


def _checked(name: str, texts: Sequence[Any]) -> Templates:
    if not texts:
        raise ConfigurationError(f"{name}: no templates.", hint=f"for example {PLAIN!r}")
    for text in texts:
        gaps = len(_GAP.findall(text)) if isinstance(text, str) else 0
        if gaps != 1:
            wrong = "no gap for the class" if gaps == 0 else "several gaps"
            raise ConfigurationError(f"template {text!r}: {wrong}.", hint=f"for example {PLAIN!r}")
    return Templates(name, tuple(dict.fromkeys(texts)))


_NUMBERED = re.compile(r"^\d+(?:[._]+| - )(?=\D)")
_WORDNET_ID = re.compile(r"^n\d{8}$")
_HEADS = {"class", "label", "name", "id", "classname", "class_name", "folder"}
_SHOWN = 5


@dataclass(frozen=True)
class ClassNames:
    """The classes of a task, and their names in prompts."""

    classes: tuple[str, ...]  # what each class is called in the data
    names: tuple[tuple[str, ...], ...]  # what it is called in prompts, one or several names each
    origin: str  # where the names come from

    def __len__(self) -> int:
        return len(self.classes)


def letters(name: str) -> str:
    """The letters and digits of a name, capitals or not: by them names are matched."""
    return "".join(character for character in name.casefold() if character.isalnum())


def tidied(label: str) -> str:
    """A label as words: "001.Black_footed_Albatross" → "Black footed Albatross"."""
    words = _NUMBERED.sub("", label).replace("_", " ").split()
    return " ".join(words) or label


def written_names(given: Any) -> tuple[Any, str]:
    """The names that somebody gives, and where they come from."""
    # Returns: A list of names (each a text, or a tuple of several), or a dictionary from class to name.
    if isinstance(given, Mapping):
        return {str(label): _several(name) for label, name in given.items()}, "given"
    if isinstance(given, Path) or (isinstance(given, str) and is_there(given) and Path(given).is_file()):
        return _from_file(Path(given)), str(given)
    if isinstance(given, str) and given.startswith(PREFIX):
        prompts = clip_prompts(given)
        return list(prompts.classes), prompts.name
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    if isinstance(given, str) and ("/" in given or given.endswith((".txt", ".csv", ".json"))) and len(names) == 1:
        raise ConfigurationError(
            f"{given}: no such file of class names.",
            hint="classes='cat,dog', or clip/food101",
            code="no-such-file-class",
        )
    return [_several(name) for name in names if name], "given"


def resolve_names(given: Any, labels: Sequence[str], *, ordered: bool = False) -> ClassNames:
    """The name in prompts of each class that the data have."""
    # Names are matched with labels by their letters (capitals, hyphens and underscores do not matter). A list that has
    # as many names as there are labels, in the order of the data set, may also be matched by place: where the labels
    # are numbers or WordNet ids, or where most names match at their own places. Anything else is refused: a wrong match
    # would look like a bad model.
    if given is None:
        words = [tidied(label) for label in labels]
        names_of_labels = words if len(set(words)) == len(words) else labels
        return ClassNames(tuple(labels), tuple((name,) for name in names_of_labels), "the data")
    names, origin = written_names(given)
    if isinstance(names, dict):
        return _by_label(names, labels, origin)
    if not names:
        raise ConfigurationError("there are no class names.", hint='classes="cat,dog"')
    repeated = sorted({name for name in names if names.count(name) > 1})
    by_letters = {letters(tidied(label)): label for label in labels}
    keys = [[letters(tidied(name)) for name in several] for several in names]
    matched = [next((by_letters[key] for key in of_class if key in by_letters), None) for of_class in keys]
    if all(matched) and len(set(matched)) == len(matched):
        return ClassNames(tuple(label for label in matched if label), tuple(names), origin)
    if len(names) == len(labels) and _by_place(matched, labels, ordered):
        return ClassNames(tuple(labels), tuple(names), f"{origin}, matched by place")
    if repeated:
        raise _repeat([several[0] for several in repeated])
    missing = [label for label in labels if label not in matched]
    if not missing:  # further names are classes that no picture has
        classes = [label or name[0] for label, name in zip(matched, names, strict=True)]
        return ClassNames(tuple(classes), tuple(names), origin)
    unmatched = [name for name, label in zip(names, matched, strict=True) if label is None]
    raise ConfigurationError(
        f"the {len(names):,} class names ({origin}) do not fit the {len(labels):,} classes of the data: no class is "
        f"called {_listed(several[0] for several in unmatched)}; no name for {_listed(missing)}.",
        hint="say which is which: classes={'label': 'name', …}, or a CSV with the columns label,name",
        code="no-class-called-no",
    )


def free_names(given: Any) -> ClassNames:
    """Class names for pictures whose classes are not known."""
    names, origin = written_names(given)
    if isinstance(names, dict):
        return ClassNames(tuple(names), tuple(names.values()), origin)
    first = [several[0] for several in names]
    repeated = sorted({name for name in first if first.count(name) > 1})
    if repeated and not origin.startswith(PREFIX):
        raise _repeat(repeated)
    if len(names) < 2:
        raise ConfigurationError(
            f"{len(names)} class name: there is nothing to choose from.", hint='"cat,dog,other"', code="nothing-choose"
        )
    unique = [name if name not in repeated else f"{name} ({place})" for place, name in enumerate(first)]
    return ClassNames(tuple(unique), tuple(names), origin)


def _by_label(names: dict[str, tuple[str, ...]], labels: Sequence[str], origin: str) -> ClassNames:
    unknown = [label for label in names if label not in labels]
    missing = [label for label in labels if label not in names]
    if unknown and missing:
        raise ConfigurationError(
            f"class names ({origin}): the data have no class {_listed(unknown)}, and {_listed(missing)} has no name.",
        )
    return ClassNames(tuple(names), tuple(names.values()), origin)


def _by_place(matched: Sequence[str | None], labels: Sequence[str], ordered: bool) -> bool:
    if all(label.isdecimal() for label in labels) or all(_WORDNET_ID.match(label) for label in labels):
        return True
    at_place = sum(label == own for label, own in zip(labels, matched, strict=True))
    elsewhere = sum(label is not None for label in matched) - at_place
    return elsewhere <= len(labels) // 50 and (ordered or at_place * 2 > len(labels))


def _from_file(file: Path) -> Any:
    if file.suffix.lower() == ".json":
        content = read_json(file)
        if isinstance(content, dict):
            return {str(label): _several(name) for label, name in content.items()}
        return [_several(name) for name in content]
    lines = [line.strip() for line in read_lines(file) if line.strip()]
    if file.suffix.lower() in (".csv", ".tsv"):
        rows = list(csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ","))
        if rows and {cell.strip().lower() for cell in rows[0]} <= _HEADS:
            rows = rows[1:]
        if rows and all(len(row) == 2 for row in rows):
            return {row[0].strip(): _several(row[1].strip()) for row in rows}
        lines = [row[0].strip() for row in rows]
    if not lines:
        raise ConfigurationError(f"{file}: no class names in it.", hint="one on each line")
    return [_several(name) for name in lines]


def _several(name: Any) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(str(part) for part in name)


def _repeat(names: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(f"class names repeat: {', '.join(names[:_SHOWN])}.", code="class-names-repeat")


def _listed(names: Any) -> str:
    listed = [repr(name) for name in names]
    more = f" and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else ""
    return (", ".join(listed[:_SHOWN]) + more) or "none"


# Zero-shot classifiers: the vector of a class is the mean of the vectors of its prompts.


Matrix = NDArray[np.float64]
SCALE = 100.0
"""By which cosines are multiplied, as CLIP has it."""
_ROWS = 8192


def unit(vectors: NDArray[Any]) -> Matrix:
    """Vectors of length 1, in double precision."""
    vectors = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (lengths > 0).all():
        raise EmbeddingError("a vector is zero, so it has no direction.", hint="is a picture or a prompt empty?")
    directions: Matrix = vectors / lengths
    return directions


def class_vectors(encoder: Encoder, names: ClassNames, templates: Templates, **options: Any) -> Matrix:
    """(classes, d) the unit vector of each class, as CLIP makes it."""
    # Each template is filled with each name of the class; the vectors of these prompts are brought to length 1, their
    # mean is taken, and that is brought to length 1 again (Radford et al. 2021, section 3.1.4).
    prompts = [[filled(template, name) for name in several for template in templates.texts] for several in names.names]
    texts = list(dict.fromkeys(prompt for of_class in prompts for prompt in of_class))
    items = Items(strings(texts), strings(texts), title="prompts", name="prompts")
    vectors = unit(as_dense(encode_items(encoder, items, "query", **options)).vectors)
    place = {text: row for row, text in enumerate(texts)}
    means = [vectors[[place[prompt] for prompt in of_class]].mean(axis=0) for of_class in prompts]
    return unit(np.stack(means))


def cosines(pictures: NDArray[Any], classes: Matrix) -> NDArray[np.float32]:
    """(n, classes) cosines of pictures and classes, computed in double precision, so that equal vectors tie."""
    scores = np.empty((len(pictures), len(classes)), np.float32)
    for start in range(0, len(pictures), _ROWS):
        scores[start : start + _ROWS] = unit(pictures[start : start + _ROWS]) @ classes.T
    return scores


# Where vectors of pictures and of classes come from: a model, or vectors that exist already.


@dataclass(frozen=True)
class Features:
    """Vectors of pictures and of classes."""

    name: str  # the name of the model
    encoder: Encoder | None = None  # the model; None where vectors are given
    images: Embeddings | None = None  # given vectors of pictures
    classes: Embeddings | None = None  # given vectors of classes, under their labels or their names
    options: dict[str, Any] = field(default_factory=dict)  # as of `visir.encode`

    @classmethod
    def of(cls, model: Any, *, device: str | None = None, dtype: str = "float32", **options: Any) -> Features:
        """The features of a model, its name, or {"image": vectors, "text": vectors of the classes}."""
        if isinstance(model, Embeddings):
            model = {"image": model}
        if isinstance(model, Mapping):
            if "image" not in model or set(model) - {"image", "text"}:
                raise ConfigurationError(
                    f"vectors are given for {', '.join(map(repr, model)) or 'nothing'}.",
                    hint="{'image': {id: vector}, 'text': {class: vector}}; 'text' may be left out",
                )
            sides = vectors_by_side({"text": model["image"], **model}, [])
            return cls(
                as_dense(sides["image"]).encoder.name or "given vectors",
                images=as_dense(sides["image"]),
                classes=as_dense(sides["text"]) if "text" in model else None,
            )
        encoder = load(model, device=device, dtype=dtype) if isinstance(model, (str, PathLike)) else model
        return cls(encoder.card.name, encoder, options=options)

    @property
    def has_texts(self) -> bool:
        """Whether classes can be embedded."""
        return self.classes is not None if self.encoder is None else "text" in self.encoder.modalities

    def of_pictures(self, items: Items) -> Embeddings:
        """The vectors of pictures; without those that are broken, where these may be left out."""
        if self.images is not None:
            return self.images.select(items.ids)
        assert self.encoder is not None
        return as_dense(encode_items(self.encoder, items, "document", **self.options))

    def marks(self, items: Items, vectors: NDArray[Any]) -> list[str]:
        """(n,) what two pictures share only if they are the same: their bytes; of given vectors the vector."""
        if self.encoder is None:
            return [vector.tobytes().hex() for vector in np.asarray(vectors)]
        return picture_digests(items)

    def at_hand(self, items: Items) -> bool:
        """Whether vectors of all these pictures exist already."""
        if self.encoder is None:
            return True
        return is_stored(self.encoder, items, "document", self.options.get("store"))

    def of_classes(self, names: ClassNames, templates: Templates) -> Matrix:
        """(classes, d) unit vectors of the classes."""
        if self.encoder is not None:
            if "text" not in self.encoder.modalities:
                raise self.encoder.cannot("text")
            return class_vectors(self.encoder, names, templates, **self.options)
        if self.classes is None:
            raise EmbeddingError("there are no vectors of classes.", hint="{'image': …, 'text': {class: vector}}")
        rows = {name: row for row, name in enumerate(self.classes.ids.to_pylist())}
        places = [
            next((rows[key] for key in (label, *several) if key in rows), None)
            for label, several in zip(names.classes, names.names, strict=True)
        ]
        missing = [label for label, place in zip(names.classes, places, strict=True) if place is None]
        if missing:
            raise EmbeddingError(
                f"no vector for the class {missing[0]!r} and {len(missing) - 1:,} more.", code="no-vector-class-more"
            )
        vectors: NDArray[Any] = np.asarray(self.classes.vectors)[[place for place in places if place is not None]]
        return unit(vectors)
