"""Probes: which latent facts of generated scenes are in an encoder's vectors.

Theorem 1 of the thesis (section 4.2.2): contrastively learnt image vectors keep the information that an image shares
with its paired caption and lose the rest; information in its other captions only is suppressed. A linear probe per fact
measures this. It predicts the fact from the image's vector; from the vector of a caption that tells it; and, as a
control, from the vector of a caption that does not, where it should reach chance level only.

A probe finds *linearly* encoded facts. A fact that it misses may still be encoded in another form.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.encoders import encode_dense, load
from visir.errors import CollectionError, EmbeddingError, VisirError, nearest, raise_faults, require
from visir.evaluation.assembly import CaptionChoice
from visir.evaluation.results import Saved
from visir.evaluation.sources import open_collection_of
from visir.evaluation.systems.given import vectors_by_side
from visir.progress import Progress
from visir.records import Collection, Embeddings
from visir.records.shortcuts import DIGITS, Shortcuts
from visir.shortcuts import inject
from visir.shortcuts.stamp import numbers
from visir.shortcuts.view import caption_places, picture_places

Role = Literal["shared", "specific", "irrelevant", "shortcut"]
ROLES: tuple[Role, ...] = get_args(Role)

FEW_BITS = 3
"""Up to this many bits a number is one digit (0 to 7), and each bit is a linear function of its one-hot code."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class LatentFact(Displayed):
    """One property that has a value in every picture."""

    name: str  # the name of the fact
    # Which captions tell it: "shared" all, "specific" one, "irrelevant" none; "shortcut": a digit of a number.
    role: Role
    of_images: Integers  # (images,) the value of each image of the collection as a code ≥ 0; −1 where there is none
    of_captions: Integers  # (captions,) the value that each caption tells, or would tell
    is_told: NDArray[np.bool_]  # (captions,) whether a caption tells it


def latent_facts(collection: Collection) -> list[LatentFact]:
    """The facts of generated scenes."""
    described = (
        [] if collection.facts is None else [fact for fact in collection.facts.schema if _role(fact) is not None]
    )
    if collection.facts is None or collection.caption_facts is None or not described:
        raise CollectionError(
            f"{collection.name}: no latent facts are known of its images.",
            hint="probe generated scenes: visir probe 'scenes:2000?seed=1' --model …",
            code="no-latent-facts-known",
        )
    faults = [
        f"fact {fact.name!r} has the role {_role(fact)!r} ({nearest(str(_role(fact)), ROLES[:3])})"
        for fact in described
        if _role(fact) not in ROLES[:3]
    ]
    of_image = pc.index_in(collection.images["id"], collection.facts["image_id"].combine_chunks())
    of_caption = pc.index_in(collection.captions["id"], collection.caption_facts["caption_id"].combine_chunks())
    for kind, rows in (("images", of_image), ("captions", of_caption)):
        if rows.null_count:
            faults.append(f"{rows.null_count:,} {kind} have no row in the table of facts")
    raise_faults(CollectionError, f"{collection.name}: facts to probe", faults)
    owners = owners_of(collection)
    tells = collection.caption_facts["tells"].take(of_caption)
    facts = []
    for column in described:
        # (n,) each value as a code; −1 for null
        values = collection.facts[column.name].take(of_image)
        indices = values.combine_chunks().dictionary_encode().indices
        codes = np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64)
        is_told = _contains(tells, column.name)
        facts.append(LatentFact(column.name, _role(column), codes, codes[owners], is_told))  # type: ignore[arg-type]
    return facts


def shortcut_digits(collection: Collection) -> list[LatentFact]:
    """The number that a collection's shortcuts give each tuple, digit by digit from the left."""
    # With 1 to 3 bits the number is one digit, and its bits are probed instead, the lowest first. With more bits they
    # are not: the bits of a number of several digits are no linear function of its digits, so a vector could contain
    # every digit and the probe would miss the bits.
    # `of_images` is the number in the picture alone, and `of_captions` the number in the caption. Where one side
    # carries no number (shortcuts on images or on captions only) it is the number of its tuple, which a probe can only
    # guess.
    injected = collection.injected
    if injected is None:
        return []
    places = picture_places(collection.items("image"))
    pictures = np.where(places < 0, -1, numbers(injected, np.maximum(places, 0), injected.assignment))
    captions = numbers(injected, caption_places(collection.items("text")), injected.assignment)
    is_told = np.full(len(captions), injected.shortcuts.on_captions)
    return [
        LatentFact(name, "shortcut", np.where(pictures < 0, -1, _part(pictures, divisor, base)),
                   _part(captions, divisor, base), is_told)
        for name, divisor, base in _parts(injected.shortcuts)
    ]  # fmt: skip


def owners_of(collection: Collection) -> Integers:
    """Find the image of each caption."""
    # Returns: (captions,) the row of the image.
    rows = pc.index_in(collection.captions["image_id"], collection.images["id"].combine_chunks())
    return np.asarray(rows.to_numpy(), np.int64)


def _parts(shortcuts: Shortcuts) -> Sequence[tuple[str, int, int]]:
    """(name, divisor, base) of each part of a number."""
    if shortcuts.kind == "bits" and shortcuts.bits <= FEW_BITS:
        return [(f"bit {place + 1}", 2**place, 2) for place in range(shortcuts.bits)]
    return [(f"digit {place + 1}", 10 ** (DIGITS - 1 - place), 10) for place in range(DIGITS)]


def _part(whole: Integers, divisor: int, base: int) -> Integers:
    return np.asarray(whole // divisor % base, np.int64)


def _role(column: pa.Field) -> str | None:
    role = (column.metadata or {}).get(b"role")
    return None if role is None else role.decode()


def _contains(lists: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """(n,) whether each list has the string `name` in it."""
    flat = lists.combine_chunks()
    contained = np.zeros(len(flat), bool)
    rows = pc.list_parent_indices(flat).to_numpy(zero_copy_only=False)
    contained[rows[pc.equal(flat.flatten(), name).to_numpy(zero_copy_only=False)]] = True
    return contained


# The examples of each probe: one per image, and folds that keep images together.

Source = Literal["image", "told", "untold"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""The source of a vector: the image, a caption that tells the fact, a caption that does not."""
_WORDS = {"image": "images", "told": "captions that tell it", "untold": "captions that do not tell it"}


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of one fact from one source, in the order of the ids of their images."""

    fact: LatentFact  # the fact
    source: Source  # the source
    rows: Integers  # (n,) the row of each vector, among the images' or among the captions'
    labels: Integers  # (n,) the value of each, a code ≥ 0
    images: Integers  # (n,) the row of the image of each; no image occurs twice


def in_order(collection: Collection) -> Collection:
    """Sort images and captions by id: floating-point sums, and so probes, depend slightly on the order of rows."""
    return replace(collection, images=collection.images.sort_by("id"), captions=collection.captions.sort_by("id"))


def groups_of(collection: Collection) -> list[str]:
    """The groups that must stay in one fold: near-duplicates."""
    # Returns: (images,) the id of each image, or of the image that it is a near-duplicate of.
    ids: list[str] = collection.images["id"].to_pylist()
    if collection.facts is None or "near_duplicate_of" not in collection.facts.column_names:
        return ids
    pairs = zip(
        collection.facts["image_id"].to_pylist(), collection.facts["near_duplicate_of"].to_pylist(), strict=True
    )
    originals = {image: original for image, original in pairs if original is not None}
    return [originals.get(identifier, identifier) for identifier in ids]


def deal(labels: Integers, groups: Sequence[str], folds: int, seed: int) -> Integers:
    """Deal examples into folds, those of one group together."""
    # The folds are stratified: every value is spread over the folds as evenly as possible. In random folds, the most
    # frequent value of a held-out part would be rarer in the others; then a probe without any information would score
    # clearly below chance. Within a value (the first of the group's) the order is that of the hash of (seed, group), so
    # it does not depend on the order of the examples.
    # labels: (n,) the value of each example.
    # groups: (n,) the group of each example.
    # Returns: (n,) the fold of each example, from 0.
    value = dict(zip(reversed(groups), reversed(labels.tolist()), strict=True))
    key = f"visir probes {seed}".encode()
    drawn = {member: hashlib.blake2b(member.encode(), key=key).digest() for member in value}
    ordered = sorted(value, key=lambda member: (value[member], drawn[member]))
    fold = {member: place % folds for place, member in enumerate(ordered)}
    return np.array([fold[group] for group in groups], np.int64)


def examples_of(collection: Collection, folds: int, seed: int) -> list[Examples]:
    """Collect the examples of every fact and every source, facts first, then the digits of shortcuts."""
    # An image gives one example to each: its vector; one of its captions that tell the fact, drawn by `seed`; one of
    # those that do not.
    owners = owners_of(collection)
    collected: list[Examples] = []
    faults: list[str] = []
    for fact in latent_facts(collection) + shortcut_digits(collection):
        for examples in _sources(collection, fact, owners, seed):
            values, counts = np.unique(examples.labels, return_counts=True)
            often = counts >= folds
            where = f"fact {fact.name!r}, {_WORDS[examples.source]}"
            if fact.role == "shortcut":
                if often.sum() > 1:
                    chosen = np.isin(examples.labels, values[often])
                    parts = {name: getattr(examples, name)[chosen] for name in ("rows", "labels", "images")}
                    collected.append(replace(examples, **parts))
            elif len(values) == 1:
                faults.append(f"{where}: all {len(examples.rows):,} have the same value")
            elif not often.all():
                faults.append(f"{where}: {(~often).sum()} of {len(values)} values in fewer than {folds} images")
            else:
                collected.append(examples)
    raise_faults(
        CollectionError,
        f"{collection.name}: too few examples to probe with {folds} folds",
        faults,
        hint="probe more images: another split, or scenes of their own ('scenes:2000?seed=1')",
    )
    return collected


def _sources(collection: Collection, fact: LatentFact, owners: Integers, seed: int) -> Iterator[Examples]:
    rows = np.flatnonzero(fact.of_images >= 0)
    if len(rows):
        yield Examples(fact, "image", rows, fact.of_images[rows], rows)
    for source, mask in (("told", fact.is_told), ("untold", ~fact.is_told)):
        rows = np.flatnonzero(mask & (fact.of_captions >= 0))
        if len(rows):
            drawn = collection.captions.take(pa.array(rows))
            keep = CaptionChoice("random", seed=seed).keep(
                drawn["id"].combine_chunks(), drawn["image_id"].combine_chunks()
            )
            rows = rows[keep]
            rows = rows[np.argsort(owners[rows], kind="stable")]
            yield Examples(fact, source, rows, fact.of_captions[rows], owners[rows])  # type: ignore[arg-type]


# A linear probe: can a linear classifier read the values of a fact from vectors?

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""scikit-learn's C, the inverse of the L2 penalty: from a strong penalty to a weak one."""
STEPS = 1_000

Matrix = NDArray[np.floating]
Labels = NDArray[np.int64]


def held_out_hits(vectors: Matrix, labels: Labels, folds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Predict each example with a probe that was not fitted to it."""
    # Each fold in turn is held out, and the probe is fitted to all the others. It is a multinomial logistic regression
    # with an L2 penalty (scikit-learn's, by L-BFGS, at most 1,000 steps) on dimensions standardised by the mean and
    # deviation of the fitted part. Otherwise the penalty would depend on the scale of each dimension.
    # The penalty is chosen again for every held-out fold: the next fold is the validation part, the probe is fitted to
    # the rest with C = 0.01, 0.1, … until the likelihood of the validation part falls, and then to both with the best
    # C. No single C is right for all facts. A fact in few weak directions needs a weak penalty (the second thing, in
    # captions of scenes-vse: 28 % with C = 0.1, 66 % with 10); a fact spread over all directions needs a strong one
    # (the subject, in images of scenes-heads: 45 % and 40 %). The likelihood is used, not the accuracy, because it
    # changes smoothly.
    # vectors: (n, d) the vectors.
    # labels: (n,) the value of each example, a code.
    # folds: (n,) the fold of each example; at least three folds.
    # Returns: (n,) whether the probe predicts the value.
    require("sklearn", extra="shortcuts", purpose="a linear probe")
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    hits = np.zeros(len(labels), bool)
    present = np.unique(folds)
    with expected_warnings():
        for fold, behind in zip(present, np.roll(present, -1), strict=True):
            held, validation = folds == fold, folds == behind
            values = np.unique(labels[~held])
            if len(values) == 1:  # a single value: it is always predicted
                hits[held] = labels[held] == values[0]
                continue
            scaled = StandardScaler().fit(vectors[~held]).transform(vectors)
            rest = ~(held | validation)
            strength = _strength(scaled[rest], labels[rest], scaled[validation], labels[validation])
            line = LogisticRegression(C=strength, max_iter=STEPS).fit(scaled[~held], labels[~held])
            hits[held] = line.predict(scaled[held]) == labels[held]
    return hits


@contextlib.contextmanager
def expected_warnings() -> Iterator[None]:
    """Leave out what scikit-learn warns of while probes are fitted, and what says nothing new here."""
    # A probe stops after its steps, and there may be few examples of many classes.
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes is greater than", UserWarning)
        yield


def _strength(vectors: Matrix, labels: Labels, validation: Matrix, validation_labels: Labels) -> float:
    """The C with the highest likelihood of the validation part; the search stops at the first worse one."""
    from sklearn.linear_model import LogisticRegression

    values = np.unique(labels)
    # A value that is not in the rest has no likelihood under any C.
    judged = np.isin(validation_labels, values)
    if len(values) == 1 or not judged.any():
        return STRENGTHS[0]
    place = (np.arange(judged.sum()), np.searchsorted(values, validation_labels[judged]))
    line = LogisticRegression(max_iter=STEPS, warm_start=True)  # each C starts from the previous solution
    best, likeliest = STRENGTHS[0], -np.inf
    for strength in STRENGTHS:
        line.set_params(C=strength).fit(vectors, labels)
        likelihood = float(np.log(np.maximum(line.predict_proba(validation[judged])[place], 1e-30)).mean())
        if likelihood <= likeliest:
            break
        best, likeliest = strength, likelihood
    return best


@dataclass(frozen=True)
class ProbeReading:
    """How well one fact is predicted from one source; all shares are in [0, 1]."""

    accuracy: float  # the share of held-out examples with a correct prediction
    low: float  # the lower end of Wilson's 95 % interval
    high: float  # the upper end
    # The share of the most frequent value among the held-out examples (every example is held out once). The most
    # frequent value is known only afterwards: a probe without information may end slightly lower, near 1 / values.
    chance: float
    examples: int  # the number of examples, one per image

    @property
    def normalised(self) -> float:
        """(accuracy − chance) / (1 − chance): 0 at chance, 1 if every prediction is correct, negative below chance."""
        return (self.accuracy - self.chance) / (1 - self.chance)


@dataclass(frozen=True, repr=False)
class ProbedFact(Displayed):
    """One fact and its readings."""

    name: str  # the name of the fact
    role: Role  # its role
    values: int  # the number of its values
    # By source. A source is absent without such captions: no caption tells an irrelevant fact, and every caption tells
    # a shared one.
    readings: dict[Source, ProbeReading]


@dataclass(frozen=True)
class RoleMean:
    """The mean of the normalised accuracies of the facts of a role from one source."""

    # The 95 % interval is Student's t over images: it covers the choice of images, not another training of the encoder
    # or other facts.

    role: Role  # the role
    source: Source  # the source
    facts: int  # the number of facts
    mean: float  # the mean
    low: float  # the lower end of the interval
    high: float  # the upper end


@dataclass(frozen=True)
class ProbeResult(Tabular, Plotted, Saved):
    """The results of all probes of a collection and its vectors."""

    collection: str  # the name of the collection
    source: str  # its source
    fingerprint: str  # its fingerprint
    images: int  # the number of images
    captions: int  # the number of captions
    shortcuts: str  # the injected shortcuts in words, "" for none
    image_encoder: str  # the name of the images' encoder
    text_encoder: str  # the name of the captions' encoder
    image_dimension: int  # the dimension of image vectors
    text_dimension: int  # the dimension of caption vectors
    folds: int  # the number of folds
    seed: int  # the seed
    facts: tuple[ProbedFact, ...]  # in the collection's order, the shortcuts' digits last
    roles: tuple[RoleMean, ...]  # the means

    def __repr__(self) -> str:
        means = [
            f"{role}: "
            + ", ".join(f"{mean.source} {100 * mean.mean:.1f} %" for mean in self.roles if mean.role == role)
            for role in ROLES
        ]
        return brief(
            self,
            f"{' and '.join(dict.fromkeys((self.image_encoder, self.text_encoder)))} on {self.collection}: "
            f"{counted(len(self.facts), 'facts')}, {counted(self.images, 'images')}",
            *(line for line in means if not line.endswith(": ")),
        )

    def fact(self, name: str) -> ProbedFact:
        """Look up a fact."""
        by_name = {fact.name: fact for fact in self.facts}
        if name not in by_name:
            raise VisirError(f"probes: there is no fact {name!r}.", hint=f"known: {', '.join(by_name)}", code="no-fact")
        return by_name[name]

    def mean(self, role: Role, source: Source) -> RoleMean:
        """Look up the mean over the facts of a role, read from a source."""
        by_role = {(role.role, role.source): role for role in self.roles}
        if (role, source) not in by_role:
            known = "; ".join(f"{role_name}, {source_name}" for role_name, source_name in by_role)
            raise VisirError(
                f"probes: there are no readings of {role} facts from {source!r}.",
                hint=f"known: {known}",
                code="no-readings-facts",
            )
        return by_role[role, source]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the normalised accuracies."""
        content = asdict(self)
        for row, fact in zip(content["facts"], self.facts, strict=True):
            for name, reading in fact.readings.items():
                row["readings"][name]["normalised"] = reading.normalised
        return content


def probe(
    source: Any,
    model: Any,
    *,
    split: str | None = None,
    shortcuts: str | None = None,
    folds: int = 5,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> ProbeResult:
    """Read every latent fact of generated scenes from a model's vectors, with linear probes.

    Args:
        source: Generated scenes, or their name: "scenes:2000?seed=1", with a seed that no training used.
        model: A model or its name; or vectors: the pair (images, texts), or {"image": …, "text": …} as
            `visir.evaluate` takes them.
        split: The split, or several: "train+val"; None is everything.
        shortcuts: Synthetic shortcuts on pictures and captions, whose digits are then probed as well: "unique".
        folds: The number of parts of the images, from 3; each is held out once.
        seed: Of the cut, and of which captions are read.
        device: Where a model that is named is run.
        dtype: Its arithmetic.
        **encoding: Options of `visir.encode`.

    Returns:
        How well each fact is read from images and from captions, beside chance.

    Raises:
        CollectionError: The source has no latent facts, or too few examples of one.
        VisirError: There are fewer than three folds.

    Example:
        >>> import pyarrow as pa
        >>> import visir
        >>> ids, shapes = [f"i{number}" for number in range(12)], ["ball", "cube"] * 6
        >>> shape = pa.field("shape", pa.string(), metadata={"role": "shared"})
        >>> schema = pa.schema([pa.field("image_id", pa.string()), shape])
        >>> pictures = Collection.build(
        ...     "by hand",
        ...     images={"id": ids},
        ...     captions={"id": ids, "text": shapes, "image_id": ids},
        ...     facts=pa.table([ids, shapes], schema=schema),
        ...     caption_facts=pa.table({"caption_id": ids, "tells": [["shape"]] * 12}),
        ... )
        >>> vectors = {name: [1.0, 0.1] if shape == "ball" else [0.1, 1.0] for name, shape in zip(ids, shapes)}
        >>> visir.probe(pictures, {"image": vectors, "text": vectors}, folds=3).facts[0].readings["image"].accuracy
        1.0
    """
    require("sklearn", extra="shortcuts", purpose="visir.probe")  # before an hour of encoding, not after
    if folds < 3:
        raise _too_few(folds)
    collection = open_collection_of(source, None, "probe")
    if shortcuts:
        collection = inject(collection, shortcuts)
    collection = collection.split(split)
    if isinstance(model, (tuple, list)) and len(model) == 2:
        model = dict(zip(("image", "text"), model, strict=True))
    if isinstance(model, Mapping):
        sides = vectors_by_side(model, [])
        given = {side: vectors for side, vectors in sides.items() if isinstance(vectors, Embeddings)}
        if set(given) != {"image", "text"}:
            raise EmbeddingError("probes read dense vectors of images and of texts.", hint="{'image': …, 'text': …}")
        images, texts = given["image"], given["text"]
    else:
        encoder = load(model, device=device, dtype=dtype) if isinstance(model, (str, PathLike)) else model
        images, texts = (encode_dense(encoder, collection, side, **encoding) for side in ("image", "text"))
    return probe_vectors(collection, images, texts, folds=folds, seed=seed)


def probe_vectors(
    collection: Collection, images: Embeddings, texts: Embeddings, *, folds: int = 5, seed: int = 0
) -> ProbeResult:
    """Probe the vectors of a collection's images and captions for every latent fact, and for its shortcuts' digits."""
    # Each image gives *one* example: its vector; one of its captions that tell the fact, drawn at random; one of those
    # that do not. The other reading, all captions, would give the probe of a shared fact five times the examples of a
    # specific one, and shared facts would score higher for this reason alone. All random choices follow from `seed` and
    # ids, so the order of rows does not matter.
    # images: (images, d) the vectors of the images, in any order. All vectors are normalised to length 1, as the thesis
    # defines its representations (section 4.2.1): search by cosine does not use the length, so probes must not.
    if folds < 3:
        raise _too_few(folds)
    for embeddings, modality in ((images, "image"), (texts, "text")):
        if embeddings.modality != modality:
            raise EmbeddingError(
                f"probes: {embeddings.modality} vectors were given where {modality} vectors belong.",
                code="vectors-given-where-vectors",
            )
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
        roles=_means(examples, readings, hits, groups),
    )


def _too_few(folds: int) -> VisirError:
    return VisirError(
        f"probes: folds={folds}, but one is held out, one chooses the penalty, and the others are fitted to.",
        hint="5 is usual",
        code="folds-one-held-out",
    )


def _reading(hits: NDArray[np.bool_], labels: NDArray[np.int64]) -> ProbeReading:
    chance = float(np.bincount(labels).max()) / len(hits)
    return ProbeReading(float(hits.mean()), *stats.estimate(hits).ends, chance, len(hits))


def _facts(examples: Sequence[Examples], readings: Sequence[ProbeReading]) -> tuple[ProbedFact, ...]:
    facts: dict[str, ProbedFact] = {}
    for example, reading in zip(examples, readings, strict=True):
        fact = example.fact
        values = len(np.unique(example.labels))
        facts.setdefault(fact.name, ProbedFact(fact.name, fact.role, values, {})).readings[example.source] = reading
    return tuple(facts.values())


def _means(
    examples: Sequence[Examples],
    readings: Sequence[ProbeReading],
    hits: Sequence[NDArray[np.bool_]],
    groups: Sequence[str],
) -> tuple[RoleMean, ...]:
    """The mean of each role and source, in that order."""
    # The mean of the normalised accuracies is a mean over images as well: image i contributes the mean over facts of (n
    # / n_f · hit_if − chance_f) / (1 − chance_f), where n_f of the n images are examples of fact f (nearly always all).
    # So its interval is Student's t over images, with all their facts and their near-duplicates.
    role_means = []
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
            low, high = stats.estimate(share, groups, kind="mean", bounds=(-np.inf, 1.0)).ends
            role_means.append(RoleMean(role, source, len(chosen), float(share.mean()), low, high))
    return tuple(role_means)
