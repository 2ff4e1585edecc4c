"""The door for what is evaluated: an encoder, a pair of embeddings, or runs that somebody made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, VisirError
from visir.records import DIRECTIONS, Direction, Embeddings, EncoderCard, Run

System: TypeAlias = Encoder | Run | Iterable[Embeddings] | Iterable[Run] | Mapping[Any, Embeddings] | Mapping[Any, Run]
"""An `Encoder`; image and text `Embeddings` (a pair or a mapping); one `Run`, several, or a mapping of them."""


def runs_of(system: System) -> dict[Direction, Run] | None:
    """The runs by direction, in the usual order, when the system is given as runs; None otherwise.

    The direction of a run is its own; under another key of a mapping it is an error.
    """
    given = _members(system)
    if not given or not all(isinstance(one, Run) for one in given):
        return None
    found: dict[Direction, Run] = {}
    for run in given:
        assert isinstance(run, Run)
        if run.direction in found:
            raise ConfigurationError(
                f"two runs of the direction {run.direction}: {found[run.direction].name} and {run.name}.",
                hint="evaluate them one after the other, then compare the results",
            )
        found[run.direction] = run
    if isinstance(system, Mapping):
        for key, run in system.items():
            if isinstance(run, Run) and key != run.direction:
                raise ConfigurationError(f"under {key!r} there is a run of the direction {run.direction!r}.")
    return {direction: found[direction] for direction in DIRECTIONS if direction in found}


def embeddings_of(system: System) -> tuple[Embeddings, Embeddings] | None:
    """(images, texts) when the system is given as embeddings; None otherwise."""
    given = _members(system)
    if not given or not all(isinstance(one, Embeddings) for one in given):
        return None
    by_modality = {one.modality: one for one in given if isinstance(one, Embeddings)}
    if len(given) != 2 or len(by_modality) != 2:
        raise ConfigurationError(
            f"expected image and text embeddings, got {', '.join(one.modality for one in by_modality.values())} "
            f"({len(given)} in all).",
            hint="give the pair (images, texts)",
        )
    images, texts = by_modality["image"], by_modality["text"]
    if images.dimension != texts.dimension:
        raise ConfigurationError(
            f"image vectors have {images.dimension} dimensions ({images.encoder.name}), text vectors {texts.dimension} "
            f"({texts.encoder.name}): they are not in one space.",
            hint="encode both with one model, or train heads over the two",
        )
    return images, texts


def refuse(system: object) -> VisirError:
    """The error for something that is no system."""
    return ConfigurationError(
        f"cannot evaluate a {type(system).__name__}.",
        hint="give an encoder (visir.encoders.load), the pair (image embeddings, text embeddings), or runs",
    )


def system_name(images: EncoderCard, texts: EncoderCard) -> str:
    """One name for what encoded images and texts."""
    return images.name if images.name == texts.name else f"{images.name} + {texts.name}"


def system_fields(images: EncoderCard, texts: EncoderCard) -> dict[str, str]:
    """The fields of `Protocol` that the encoder cards fill: preprocessing, truncation and query template."""
    text = dict(texts.text_preprocessing)
    template = str(text.pop("template", "{}"))
    truncation = ", ".join(
        f"{name.replace('_', ' ')} {text.pop(name)}"
        for name in ("truncation", "max_length", "context_length", "max_tokens")
        if name in text
    )
    return {
        "image_preprocessing": _in_words(images.image_preprocessing),
        "text_preprocessing": _in_words(text),
        "truncation": truncation,
        "query_template": template,
    }


def _members(system: System) -> list[object]:
    if isinstance(system, (Run, Embeddings)):
        return [system]
    if isinstance(system, Mapping):
        return list(system.values())
    return list(system) if isinstance(system, (list, tuple)) else []


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(values.items()))
