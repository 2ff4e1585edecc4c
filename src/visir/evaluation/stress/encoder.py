"""An encoder under stress: only what a perturbation changed is encoded anew, and searched over plain candidates."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.errors import ConfigurationError
from visir.evaluation.stress.subject import DEPTH, PLAIN, Condition, Setup, Subject, unanswered
from visir.evaluation.systems import system_fields
from visir.records import SIDES, Collection, Embeddings, Modality, Qrels, Vectors
from visir.search.exact import Searched, search, similarity_of


class EncoderSubject(Subject):
    """Any encoder, dense or sparse, through the store: a killed study encodes nothing twice.

    `encoding`: options handed to `visir.encoders.encode` (`store`, `batch_size`, `workers`). Vectors that were made
    elsewhere are refused: nobody can encode a perturbed caption with them.
    """

    def __init__(self, encoder: Encoder, name: str | None = None, **encoding: Any) -> None:
        super().__init__(name or encoder.card.name)
        self.encoder = encoder
        self._options = encoding
        self._plain: dict[Modality, Vectors] = {}
        modalities: tuple[Modality, Modality] = ("image", "text")
        for modality in modalities:
            if encoder.deepest_backbone(modality).precomputed:
                raise ConfigurationError(
                    f"{encoder.card.name}: vectors that were made elsewhere cannot be asked perturbed queries.",
                    hint="name the model itself; or write the perturbed captions (visir perturb), search them "
                    "where the model is, and give the runs (--runs)",
                )

    def answer(self, setup: Setup, task: str, condition: Condition) -> Searched:
        """Encode the condition's queries and search them; queries with a zero vector find nothing, and are noted."""
        modality, searched = SIDES[task]
        candidates = self.plain(setup, searched)
        qrels = setup.qrels[task].select(condition.queries)
        if condition.name == PLAIN:
            queries = self.plain(setup, modality)
        else:
            queries = self._encoded(_only(condition.view, condition.queries, modality), modality)
        scored_by = similarity_of(None, queries, candidates)
        answered = qrels
        if isinstance(queries, Embeddings) and scored_by == "cosine":
            answered = self._without_zeros(queries, qrels, condition)
        found = search(
            queries,
            candidates,
            task,
            gallery=setup.galleries[task],
            depth=DEPTH,
            similarity=scored_by,
            ties=setup.ties,
            qrels=answered,
            name=self.name,
        )
        assert found.ranks is not None, "judgements were given"
        return found if answered is qrels else replace(found, ranks=unanswered(found.ranks, qrels))

    def plain(self, setup: Setup, modality: Modality) -> Vectors:
        """The vectors of the unperturbed images or captions, looked up once."""
        if modality not in self._plain:
            self._plain[modality] = self._encoded(setup.pool, modality)
        return self._plain[modality]

    def fields(self, setup: Setup) -> dict[str, str]:
        """The system's fields of the protocol."""
        images, texts = self.plain(setup, "image"), self.plain(setup, "text")
        return {**system_fields(images, texts), "similarity": similarity_of(None, images, texts)}

    def _encoded(self, collection: Collection, modality: Modality) -> Vectors:
        started = time.perf_counter()
        found = encode_items(self.encoder, collection.items(modality), **self._options)
        self.spent += time.perf_counter() - started
        return found

    def _without_zeros(self, queries: Embeddings, qrels: Qrels, condition: Condition) -> Qrels:
        """The judgements of queries whose vector is not zero. A bag of words knows none of a caption of typos."""
        lengths = np.abs(np.asarray(queries.vectors)).max(axis=1)
        zero = queries.ids.filter(pa.array(lengths == 0))
        if not len(zero):
            return qrels
        self.notes.append(
            f"{condition.name}: {len(zero):,} queries have a zero vector (no known word?); they found nothing"
        )
        return qrels.select(qrels.queries.filter(pc.invert(pc.is_in(qrels.queries, zero))))


def _only(view: Collection, ids: pa.StringArray, modality: Modality) -> Collection:
    """The part of a view that must be encoded anew: these captions, or these images."""
    if modality == "text":
        # The images stay: they cost nothing, and a caption must have its image in the collection.
        chosen = view.captions.filter(pc.is_in(view.captions["id"], ids))
        return replace(view, captions=chosen, judgements=view.judgements.slice(0, 0), caption_facts=None)
    return view.keep_images(pc.is_in(view.images["id"], ids))
