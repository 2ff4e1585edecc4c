"""Probes: which latent facts of generated scenes are in an encoder's vectors.

Theorem 1 of the thesis (section 4.2.2) says that image vectors learnt contrastively come to hold what an image shares
with the caption beside it and lose the rest: what only its other captions tell is suppressed. A linear probe per fact
measures that. It reads the fact from the image's vector; from the vector of a caption that tells it; and, for control,
from the vector of a caption that does not, where nothing but chance should come out.

A probe finds what is there *linearly*. What it misses may still be there in some other form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError, VisirError
from visir.evaluation.latent_facts import ROLES, Role
from visir.evaluation.linear_probe import held_out_hits
from visir.evaluation.probe_examples import SOURCES, Examples, Source, deal, examples_of, groups_of, in_order
from visir.evaluation.significance import bootstrap_interval
from visir.progress import Progress
from visir.records import Collection, Embeddings


@dataclass(frozen=True)
class ProbeReading:
    """How well one fact is read from one source; all shares in [0, 1].

    - `accuracy`: the share of held-out examples whose value the probe names; `low` and `high`: Wilson's 95 % interval
    - `chance`: the share of the most frequent value among the held-out examples (every example is held out once). It is
      the most frequent in hindsight: a probe that knows nothing may end a little below, near 1 / values.
    - `examples`: how many, one per image
    """

    accuracy: float
    low: float
    high: float
    chance: float
    examples: int

    @property
    def normalised(self) -> float:
        """(accuracy − chance) / (1 − chance): 0 at chance, 1 when every value is named; below chance negative."""
        return (self.accuracy - self.chance) / (1 - self.chance)


@dataclass(frozen=True)
class ProbedFact:
    """One fact: its name and role, how many values occur, and what each source gives away.

    A source is absent where there is no such caption: nobody tells an irrelevant fact, and everybody a shared one.
    """

    name: str
    role: Role
    values: int
    readings: dict[Source, ProbeReading]


@dataclass(frozen=True)
class RoleMean:
    """The mean of the normalised accuracies of the facts of a role from one source, with a 95 % interval.

    `facts` is how many there are. The interval is a bootstrap over images: what other images would have given. It does
    not say how another training of the encoder, or other facts, would have turned out.
    """

    role: Role
    source: Source
    facts: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ProbeResult:
    """What the probes found, and of what.

    - `collection`, `source`, `fingerprint`, `images`, `captions`: what was probed; `shortcuts`: which shortcuts it
      carried, "" for none
    - `image_encoder`, `text_encoder`: whose vectors, of `image_dimension` and `text_dimension`
    - `folds`, `seed`: the cut
    - `facts`: in the collection's order, the shortcuts' digits last; `roles`: their means
    """

    collection: str
    source: str
    fingerprint: str
    images: int
    captions: int
    shortcuts: str
    image_encoder: str
    text_encoder: str
    image_dimension: int
    text_dimension: int
    folds: int
    seed: int
    facts: tuple[ProbedFact, ...]
    roles: tuple[RoleMean, ...]

    def fact(self, name: str) -> ProbedFact:
        """The fact of this name."""
        by_name = {fact.name: fact for fact in self.facts}
        if name not in by_name:
            raise VisirError(f"probes: there is no fact {name!r}.", hint=f"known: {', '.join(by_name)}")
        return by_name[name]

    def mean(self, role: Role, source: Source) -> RoleMean:
        """The mean over the facts of a role, read from a source."""
        by_role = {(role.role, role.source): role for role in self.roles}
        if (role, source) not in by_role:
            known = "; ".join(f"{role_name}, {source_name}" for role_name, source_name in by_role)
            raise VisirError(f"probes: there are no readings of {role} facts from {source!r}.", hint=f"known: {known}")
        return by_role[role, source]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the normalised accuracies among them."""
        content = asdict(self)
        for row, fact in zip(content["facts"], self.facts, strict=True):
            for name, reading in fact.readings.items():
                row["readings"][name]["normalised"] = reading.normalised
        return content


def probe(
    collection: Collection, images: Embeddings, texts: Embeddings, *, folds: int = 5, seed: int = 0
) -> ProbeResult:
    """Probe the vectors of a collection's images and captions for every latent fact, and for its shortcuts' digits.

    - `collection`: generated scenes; each column of its `facts` whose metadata name a role is probed. Where it carries
      synthetic shortcuts, so is every digit that varies (of 1 to 3 bits, every bit), in the role "shortcut".
    - `images`, `texts`: the vectors, (images, d) and (captions, d'), in any order. They are brought to length 1, as the
      thesis defines its representations (section 4.2.1): what search by cosine does not see, no probe shall see.
    - `folds`: the images are dealt into so many parts; each is held out once and the probe fitted to the others
      (`visir.evaluation.linear_probe`). The cut is by image, a near-duplicate goes with its original, and every value
      is spread evenly over the parts.

    From each image comes *one* example: its vector; of its captions that tell the fact, one drawn at random; of those
    that do not, one. The other reading, all captions, would give the probe of a shared fact five times the examples of
    a specific one, and shared would come out ahead of specific by that alone.

    Everything drawn follows from `seed` and ids, so the order of rows does not matter. Raises `CollectionError` that
    names every fact with too few examples: each value must occur in at least `folds` images.
    """
    if folds < 3:
        raise VisirError(
            f"probes: folds={folds}, but one is held out, one chooses the penalty, and the others are fitted to.",
            hint="5 is usual",
        )
    for given, modality in ((images, "image"), (texts, "text")):
        if given.modality != modality:
            raise EmbeddingError(f"probes: {given.modality} vectors were given where {modality} vectors belong.")
    collection = in_order(collection)
    examples = examples_of(collection, folds, seed)
    groups = groups_of(collection)
    vectors = {
        "image": images.select(collection.images["id"]).normalise().vectors,
        "text": texts.select(collection.captions["id"]).normalise().vectors,
    }
    hits: list[NDArray[np.bool_]] = []
    with Progress("probing", len(examples), "probes") as advance:
        for example in examples:
            side = vectors["image" if example.source == "image" else "text"]
            cut = deal(example.labels, [groups[image] for image in example.images], folds, seed)
            hits.append(held_out_hits(side[example.rows], example.labels, cut))
            advance()
    readings = [_reading(predicted, example.labels) for example, predicted in zip(examples, hits, strict=True)]
    injected = collection.injected
    return ProbeResult(
        collection=collection.name,
        source=collection.source,
        fingerprint=collection.fingerprint,
        images=collection.images.num_rows,
        captions=collection.captions.num_rows,
        shortcuts="" if injected is None else str(injected),
        image_encoder=images.encoder.name,
        text_encoder=texts.encoder.name,
        image_dimension=images.dimension,
        text_dimension=texts.dimension,
        folds=folds,
        seed=seed,
        facts=_facts(examples, readings),
        roles=_means(examples, readings, hits, groups, seed),
    )


def _reading(hits: NDArray[np.bool_], labels: NDArray[np.int64]) -> ProbeReading:
    from scipy.stats import binomtest

    right, total = int(hits.sum()), len(hits)
    interval = binomtest(right, total).proportion_ci(0.95, method="wilson")
    chance = float(np.bincount(labels).max()) / total
    return ProbeReading(right / total, float(interval.low), float(interval.high), chance, total)


def _facts(examples: Sequence[Examples], readings: Sequence[ProbeReading]) -> tuple[ProbedFact, ...]:
    made: dict[str, ProbedFact] = {}
    for example, reading in zip(examples, readings, strict=True):
        fact = example.fact
        values = len(np.unique(example.labels))
        made.setdefault(fact.name, ProbedFact(fact.name, fact.role, values, {})).readings[example.source] = reading
    return tuple(made.values())


def _means(
    examples: Sequence[Examples],
    readings: Sequence[ProbeReading],
    hits: Sequence[NDArray[np.bool_]],
    groups: Sequence[str],
    seed: int,
) -> tuple[RoleMean, ...]:
    """The mean of each role and source, in that order.

    The mean of the normalised accuracies is a mean over images as well: image i contributes the mean over facts of
    (n / n_f · hit_if − chance_f) / (1 − chance_f), where n_f of the n images are examples of fact f (nearly always
    all). So whole images can be drawn again, with all their facts and their near-duplicates.
    """
    made = []
    for role in ROLES:
        for source in SOURCES:
            chosen = [
                (example, reading, hit)
                for example, reading, hit in zip(examples, readings, hits, strict=True)
                if example.fact.role == role and example.source == source
            ]
            if not chosen:
                continue
            share = np.zeros(len(groups))
            for chosen_examples, reading, hit in chosen:
                weighted = np.full(len(groups), -reading.chance)
                weighted[chosen_examples.images] += len(groups) / reading.examples * hit
                share += weighted / (1 - reading.chance) / len(chosen)
            low, high = bootstrap_interval(share, groups, seed=seed)
            made.append(RoleMean(role, source, len(chosen), float(share.mean()), low, high))
    return tuple(made)
