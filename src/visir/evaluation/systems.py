"""The door for what is evaluated: an encoder, a pair of embeddings, or runs that somebody made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, VisirError
from visir.records import TASKS, UNDECLARED, Embeddings, EncoderCard, Run, SparseEmbeddings, Vectors
from visir.search.exact import similarity_of
from visir.search.sparse.scan import refuse_unlike
from visir.search.vectors import Similarity

System: TypeAlias = Encoder | Run | Iterable[Vectors] | Iterable[Run] | Mapping[Any, Vectors] | Mapping[Any, Run]
"""An `Encoder`, dense or sparse; image and text `Embeddings` or `SparseEmbeddings` (a pair or a mapping); one `Run`,
several, or a mapping of them."""


def runs_of(system: System) -> dict[str, Run] | None:
    """The runs by task, in the usual order, when the system is given as runs; None otherwise.

    The task of a run is its own; under another key of a mapping it is an error.
    """
    given = _members(system)
    if not given or not all(isinstance(one, Run) for one in given):
        return None
    found: dict[str, Run] = {}
    for run in given:
        assert isinstance(run, Run)
        if run.task in found:
            raise ConfigurationError(
                f"two runs of the task {run.task}: {found[run.task].name} and {run.name}.",
                hint="evaluate them one after the other, then compare the results",
            )
        found[run.task] = run
    if isinstance(system, Mapping):
        for key, run in system.items():
            if isinstance(run, Run) and key != run.task:
                raise ConfigurationError(f"under {key!r} there is a run of the task {run.task!r}.")
    return {task: found[task] for task in TASKS if task in found}


def with_similarity(runs: Mapping[str, Run], similarity: Similarity | None) -> tuple[dict[str, Run], str]:
    """The runs, and by what they were scored: as they say themselves, or as the caller declares for those that do not.

    Raises `ConfigurationError` when the two disagree.
    """
    made, said = {}, []
    for task, run in runs.items():
        own = run.provenance.get("similarity")
        if similarity is not None and own not in (None, similarity):
            raise ConfigurationError(
                f"run {run.name} ({task}) was scored by {own}, not by {similarity}, as it says itself.",
                hint="leave the similarity out: it is declared for runs that do not say it",
            )
        if own is None and similarity is not None:
            own, run = similarity, replace(run, provenance=run.provenance | {"similarity": similarity})
        made[task] = run
        said.append(own or UNDECLARED)
    return made, " / ".join(dict.fromkeys(said))


def embeddings_of(system: System) -> tuple[Vectors, Vectors] | None:
    """(images, texts) when the system is given as embeddings, dense or sparse; None otherwise."""
    given = _members(system)
    if not given or not all(isinstance(one, Vectors) for one in given):
        return None
    by_modality = {one.modality: one for one in given if isinstance(one, Vectors)}
    if len(given) != 2 or len(by_modality) != 2:
        raise ConfigurationError(
            f"expected image and text embeddings, got {', '.join(one.modality for one in by_modality.values())} "
            f"({len(given)} in all).",
            hint="give the pair (images, texts)",
        )
    images, texts = by_modality["image"], by_modality["text"]
    similarity_of(None, images, texts)  # refuses a dense side beside a sparse one
    if isinstance(images, SparseEmbeddings) and isinstance(texts, SparseEmbeddings):
        refuse_unlike(images, texts)
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


def origins(vectors: tuple[Vectors, Vectors] | None, runs: Mapping[str, Run] | None) -> dict[str, str]:
    """Where vectors, or ready runs, come from, and when they were made as far as that is known."""
    if vectors is not None:
        return {f"{one.modality} vectors": one.origin or "given by the caller" for one in vectors}
    found = {}
    for task, run in (runs or {}).items():
        read = run.provenance.get("read") or run.provenance.get("source")
        found[f"{task} run"] = f"from the file {read}" if read else "made before, by visir or its caller"
    return found


def system_name(images: EncoderCard, texts: EncoderCard) -> str:
    """One name for what encoded images and texts."""
    return images.name if images.name == texts.name else f"{images.name} + {texts.name}"


def system_fields(images: Vectors, texts: Vectors) -> dict[str, str]:
    """The fields of `Protocol` that the encoder cards fill: preprocessing, truncation and query template; and the
    vocabulary of sparse vectors. Whether their texts are expanded is a part of the text preprocessing.
    """
    text = dict(texts.encoder.text_preprocessing)
    if isinstance(texts, SparseEmbeddings):
        for said_below in ("vocabulary", "terms"):
            text.pop(said_below, None)
    template = str(text.pop("template", "{}"))
    truncation = ", ".join(
        f"{name.replace('_', ' ')} {text.pop(name)}"
        for name in ("truncation", "max_length", "context_length", "max_tokens")
        if name in text
    )
    return {
        "image_preprocessing": _in_words(images.encoder.image_preprocessing),
        "text_preprocessing": _in_words(text),
        "truncation": truncation,
        "query_template": template,
        "vocabulary": _vocabulary(texts),
    }


def _members(system: System) -> list[object]:
    if isinstance(system, (Run, Embeddings, SparseEmbeddings)):
        return [system]
    if isinstance(system, Mapping):
        return list(system.values())
    return list(system) if isinstance(system, (list, tuple)) else []


def _vocabulary(vectors: Vectors) -> str:
    if not isinstance(vectors, SparseEmbeddings):
        return ""
    words = vectors.vocabulary
    return f"{words.name} · {len(words):,} terms · {words.fingerprint[:12]}"


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(values.items()))
