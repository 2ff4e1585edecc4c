"""Systems under evaluation: one interface (`base`), one file per kind, and `system_of`, which makes a system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, nearest
from visir.evaluation.systems.base import System
from visir.evaluation.systems.encoder import EncoderSystem
from visir.evaluation.systems.runs import RunSystem, by_task
from visir.evaluation.systems.vectors import FORMS, VectorSystem
from visir.records import Run, Vectors
from visir.retrieval.vectors import Similarity

AnySystem: TypeAlias = System | Encoder | Run | Iterable[Vectors] | Iterable[Run] | Mapping[str, Vectors | Run]
"""A `System`, or an input of `system_of`: an encoder, a pair of embeddings, runs."""

__all__ = ["AnySystem", "EncoderSystem", "RunSystem", "System", "VectorSystem", "system_of"]


def system_of(
    given: AnySystem, similarity: Similarity | None = None, name: str | None = None, **encoding: Any
) -> System:
    """Make a system from an encoder, from embeddings or from runs.

    Args:
        given: A `System`; an `Encoder`; two `Embeddings`, `SparseEmbeddings` or `MultiVectorEmbeddings`, as a
            pair or by role ("query", "document") or modality ("image", "text"); one `Run`, several, or runs by task. In
            a pair of equal modality the first is for the queries.
        similarity: "cosine", "dot" or "maxsim"; for runs it declares a similarity that is not recorded.
        name: The name in tables.
        **encoding: Options of `visir.encoders.encode`, for an encoder.

    Returns:
        The system.

    Raises:
        ConfigurationError: It is none of these, or options of encoding are given without an encoder.
    """
    if isinstance(given, Encoder):
        return EncoderSystem(given, similarity, name, **encoding)
    if encoding:
        option = sorted(encoding)[0]
        known = ("split", "images", "measures", "tasks", "captions", "qrels", "vectors", "gallery", "folds", "depth")
        raise ConfigurationError(
            f"unknown option {option!r} ({nearest(option, known)})",
            hint="options of encoding (store, batch_size, workers) need an encoder to evaluate",
            code="unknown-option",
        )
    if isinstance(given, System):
        return given
    members = _members(given)
    runs = [member for member in members if isinstance(member, Run)]
    vectors = [member for member in members if isinstance(member, Vectors)]
    if members and len(runs) == len(members):
        if isinstance(given, Mapping):
            for key, run in given.items():
                if isinstance(run, Run) and key != run.task:
                    raise ConfigurationError(
                        f"under {key!r} there is a run of the task {run.task!r}.", code="under-run-task"
                    )
        return RunSystem(by_task(runs), similarity, name)
    if members and len(vectors) == len(members):
        return VectorSystem(_pair(given, vectors), similarity, name)
    raise ConfigurationError(f"cannot evaluate {_named(given)}.", hint=FORMS, code="cannot-evaluate")


def _named(given: object) -> str:
    kind = type(given).__name__
    return f"a{'n' if kind[:1].lower() in 'aeiou' else ''} {kind}"


def _pair(given: object, vectors: list[Vectors]) -> dict[str, Vectors]:
    if isinstance(given, Mapping) and set(given) == {"query", "document"}:
        return {"query": given["query"], "document": given["document"]}
    by_modality = {str(member.modality): member for member in vectors}
    if isinstance(given, Mapping) and any(str(key) != str(member.modality) for key, member in given.items()):
        raise ConfigurationError(
            f"vectors under the keys {', '.join(map(repr, given))}.",
            hint='name them by role ("query", "document"), or by what they are vectors of ("image", "text")',
            code="vectors-under-keys",
        )
    if len(vectors) == 2 and len(by_modality) == 1:
        return {"query": vectors[0], "document": vectors[1]}
    if len(vectors) != 2 or len(by_modality) != 2:
        raise ConfigurationError(
            f"expected image and text embeddings, got {', '.join(by_modality)} ({len(vectors)} in all).",
            hint="give the pair (images, texts), or {'query': embeddings, 'document': embeddings}",
        )
    return {modality: by_modality[modality] for modality in sorted(by_modality)}


def _members(given: object) -> list[object]:
    if isinstance(given, (Run, Vectors)):
        return [given]
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, (list, tuple)) else []
