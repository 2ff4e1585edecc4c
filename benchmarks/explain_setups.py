"""Wrong set-ups: does `visir explain` name the protocol of numbers that were computed under another one?

    VISIR_DATA=../shared/data python benchmarks/explain_setups.py [--out runs/explain] [--only NAME] [--held-out]
    python benchmarks/explain_setups.py --quick             # 200 images of each split

Each set-up computes numbers as somebody might have by mistake, mostly with plain NumPy as evaluation scripts do, prints
them with one decimal, and has them explained twice: from the result folder alone, and with the collection and the
vectors of all splits. Printed for each: "first" (named alone, or with readings that give exactly the same numbers),
"among several", "silent" (no reading that can be computed fits), "FALSE" (another protocol is named).

`explain_held_out.py` has set-ups by somebody who did not see how the readings are computed.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import visir
from explain_worlds import KS, WORLDS, Data, Matrix, Part, World, features, small, unit
from visir.evaluation.explaining.readings import Combined, Reading

Numbers = dict[str, str]
"""Printed values by label: {"t2i R@1": "30.4"}."""
PLAIN = ("the protocol of the result",)
CHANCE = ("at chance",)
SILENT: tuple[str, ...] = ()
WAYS = ("folder", "vectors")


@dataclass(frozen=True)
class SetUp:
    """Numbers under another protocol.

    Attributes:
        name: Its name.
        publish: The world → the printed numbers.
        expects: One regular expression for each cause; the right reading has exactly these causes. `PLAIN`: nothing is
            wrong; `CHANCE`: noise, which is to be called so; `SILENT`: no reading may be named, because the cause
            cannot be computed.
        world: The result that they are explained from, a name of `WORLDS`.
        needs_vectors: Whether the result folder cannot suffice.
    """

    name: str
    publish: Callable[[World], Numbers]
    expects: tuple[str, ...]
    world: str = "flickr8k"
    needs_vectors: bool = False


# How people compute recalls ------------------------------------------------------------------------------------------


def ranks_of(scores: Matrix, right: np.ndarray) -> np.ndarray:
    """(rows,) the rank of one right column of each row, from 1; equal scores stand behind it."""
    of_right = scores[np.arange(len(scores)), right]
    return 1 + (scores > of_right[:, None]).sum(axis=1)


def best_ranks(scores: Matrix, owner: np.ndarray) -> np.ndarray:
    """(images,) the best rank of a right caption for each image, of (captions, images) scores."""
    every = ranks_of_pairs(scores, owner)
    best = np.full(scores.shape[1], np.iinfo(np.int64).max)
    np.minimum.at(best, owner, every)
    return best


def ranks_of_pairs(scores: Matrix, owner: np.ndarray) -> np.ndarray:
    """(captions,) the rank of each caption among all captions, for its own image."""
    ranks = np.empty(len(owner), np.int64)
    for start in range(0, len(owner), 500):
        rows = np.arange(start, min(start + 500, len(owner)))
        columns = scores[:, owner[rows]]
        ranks[rows] = 1 + (columns > scores[rows, owner[rows]]).sum(axis=0)
    return ranks


def at(ranks: np.ndarray, k: int) -> float:
    return 100 * float((ranks <= k).mean())


def printed(i2t: Mapping[int, float], t2i: Mapping[int, float], decimals: int = 1) -> Numbers:
    values = {f"i2t R@{k}": value for k, value in i2t.items()} | {f"t2i R@{k}": value for k, value in t2i.items()}
    return {label: f"{value:.{decimals}f}" for label, value in values.items()}


def of_scores(scores: Matrix, owner: np.ndarray, ks: Sequence[int] = KS, shift: int = 0) -> Numbers:
    """Both directions of (captions, images) scores; `ks` are the cutoffs that are computed for the printed 1, 5, 10."""
    to_text, to_image = best_ranks(scores, owner), ranks_of(scores, owner)
    return printed(
        {k: at(to_text, other + shift) for k, other in zip(KS, ks, strict=True)},
        {k: at(to_image, other + shift) for k, other in zip(KS, ks, strict=True)},
    )


def of_part(part: Part) -> Numbers:
    return of_scores(part.cosines, part.owner)


def evaluated(world: World, decimals: int = 1, **options: object) -> Numbers:
    """The numbers of an evaluation by visir."""
    evaluation = world.evaluate(**options)
    recall = evaluation.protocol.recall
    values = {task: {k: 100 * evaluation.mean(task, f"{recall}@{k}") for k in KS} for task in ("i2t", "t2i")}
    return printed(values["i2t"], values["t2i"], decimals)


# The set-ups ----------------------------------------------------------------------------------------------------------


def first_as_queries(world: World) -> Numbers:
    part = world.part()
    return printed(
        {k: at(best_ranks(part.cosines, part.owner), k) for k in KS},
        {k: at(ranks_of(part.cosines, part.owner)[part.place == 0], k) for k in KS},
    )


def all_right(world: World) -> Numbers:
    part = world.part()
    worst = np.zeros(len(part.images), np.int64)
    np.maximum.at(worst, part.owner, ranks_of_pairs(part.cosines, part.owner))
    return printed({k: at(worst, k) for k in KS}, {k: at(ranks_of(part.cosines, part.owner), k) for k in KS})


def other_captions(world: World) -> Numbers:
    part, val = world.part(), world.part("val")
    texts = val.texts[: len(part.texts)]
    return of_scores(unit(texts) @ unit(part.images).T, part.owner[: len(texts)])


def with_ties(count: Callable[[Matrix, Matrix], Matrix]) -> Callable[[World], Numbers]:
    """Ranks from the numbers of better and of equal wrong candidates."""

    def publish(world: World) -> Numbers:
        part = world.part()
        scores = np.round(part.texts @ part.images.T)
        right = scores[np.arange(len(part.owner)), part.owner]
        is_own = part.owner[:, None] == np.arange(len(part.images))
        to_image = count((scores > right[:, None]).sum(1), ((scores == right[:, None]) & ~is_own).sum(1))
        best = np.full(len(part.images), np.inf)
        for row, image in enumerate(part.owner):
            wrong = part.owner != image
            column = scores[:, image]
            rank = count((column > scores[row, image]).sum(), ((column == scores[row, image]) & wrong).sum())
            best[image] = min(best[image], rank)
        return printed({k: at(best, k) for k in KS}, {k: at(to_image, k) for k in KS})

    return publish


def dot(world: World) -> Numbers:
    part = world.part()
    return of_scores(part.texts @ part.images.T, part.owner)


def euclidean(world: World) -> Numbers:
    part = world.part()
    squares = (part.texts**2).sum(1)[:, None] + (part.images**2).sum(1) - 2 * part.texts @ part.images.T
    return of_scores(-squares, part.owner)


def images_normalised(world: World) -> Numbers:
    part = world.part()
    return of_scores(part.texts @ unit(part.images).T, part.owner)


def larger_gallery(*splits: str) -> Callable[[World], Numbers]:
    def publish(world: World) -> Numbers:
        part = world.part()
        others = [world.part(name) for name in splits]
        images = np.concatenate([part.images, *(other.images for other in others)])
        texts = np.concatenate([part.texts, *(other.texts for other in others)])
        to_image = ranks_of(unit(part.texts) @ unit(images).T, part.owner)
        best = best_ranks(unit(texts) @ unit(part.images).T, part.owner)
        return printed({k: at(best, k) for k in KS}, {k: at(to_image, k) for k in KS})

    def best_ranks(scores: Matrix, owner: np.ndarray) -> np.ndarray:
        best = np.full(scores.shape[1], np.iinfo(np.int64).max)
        for row, image in enumerate(owner):
            best[image] = min(best[image], 1 + (scores[:, image] > scores[row, image]).sum())
        return best

    return publish


def five_times(world: World) -> Numbers:
    """A square matrix of captions and their images: an image is there once for each caption, row i is right for i."""
    part = world.part()
    scores = part.cosines[:, part.owner]  # (captions, captions)
    place = np.arange(len(part.owner))
    right = scores[place, place]
    before = np.tril(np.ones(scores.shape, bool), -1) & (scores == right[:, None])
    to_image = 1 + (scores > right[:, None]).sum(1) + before.sum(1)
    to_text = ranks_of_pairs(part.cosines, part.owner)
    return printed({k: at(to_text, k) for k in KS}, {k: at(to_image, k) for k in KS})


def swapped(world: World) -> Numbers:
    numbers = of_part(world.part())
    return {("t2i" if label[0] == "i" else "i2t") + label[3:]: value for label, value in numbers.items()}


def fractions(world: World) -> Numbers:
    return {label: f"{float(value) / 100:.3f}" for label, value in of_part(world.part()).items()}


def shuffled(world: World) -> Numbers:
    part = world.part()
    return of_scores(part.cosines, np.random.default_rng(3).permutation(part.owner))


def tiled(world: World) -> Numbers:
    part = world.part()
    return of_scores(part.cosines, np.arange(len(part.owner)) % len(part.images))


def cut_list(depth: int) -> Callable[[World], Numbers]:
    return lambda world: of_scores(world.part().cosines, world.part().owner, [min(k, depth) for k in KS])


def cut_digits(world: World) -> Numbers:
    part = world.part()
    to_text, to_image = best_ranks(part.cosines, part.owner), ranks_of(part.cosines, part.owner)
    cut = [{k: np.floor(10 * at(ranks, k)) / 10 for k in KS} for ranks in (to_text, to_image)]
    return printed(cut[0], cut[1], 1)


def changed_vectors(side: str) -> Callable[[World], Numbers]:
    """Vectors as another crop, or another length of texts, gives them: a little different each."""

    def publish(world: World) -> Numbers:
        part, random = world.part(), np.random.default_rng(5)
        vectors = unit(getattr(part, side))
        noise = random.normal(size=vectors.shape) * 0.35 / np.sqrt(vectors.shape[1])
        return of_part(replace(part, **{side: (vectors + noise).astype(np.float32)}))

    return publish


def mean_captions(world: World) -> Numbers:
    part = world.part()
    sums = np.zeros((len(part.images), part.texts.shape[1]))
    np.add.at(sums, part.owner, unit(part.texts))
    return of_scores(unit(sums) @ unit(part.images).T, np.arange(len(part.images)))


def few_digits(world: World) -> Numbers:
    return {label: f"{float(value):.0f}" for label, value in of_part(world.part("val")).items() if label == "t2i R@1"}


def first_of_val(world: World) -> Numbers:
    part = world.part("val")
    return of_part(part.keep(part.place == 0))


COLUMNS = tuple(f"{task} R@{k}" for task in ("i2t", "t2i") for k in KS)


def columns(*places: int) -> Callable[[World], Numbers]:
    """A table whose six columns were put down in another order than its head says."""

    def publish(world: World) -> Numbers:
        numbers = of_part(world.part())
        return {label: numbers[COLUMNS[place]] for label, place in zip(COLUMNS, places, strict=True)}

    return publish


def over_directions(world: World) -> Numbers:
    part = world.part()
    means = {
        k: (at(best_ranks(part.cosines, part.owner), k) + at(ranks_of(part.cosines, part.owner), k)) / 2 for k in KS
    }
    return printed(means, means)


def by_text(world: World) -> Numbers:
    """As a dictionary of texts: equal captions are one query, and one candidate, with all their images."""
    part = world.part()
    captions = world.collection.split("test").captions["text"].to_pylist()
    images: dict[str, list[int]] = {}
    for text, image in zip(captions, part.owner.tolist(), strict=True):
        images.setdefault(text, []).append(image)
    scores = part.cosines[[captions.index(text) for text in images]]
    best = np.full(len(part.images), np.iinfo(np.int64).max)
    to_image = np.empty(len(images), np.int64)
    for row, right in enumerate(images.values()):
        to_image[row] = min(1 + (scores[row] > scores[row, image]).sum() for image in right)
        for image in right:
            best[image] = min(best[image], 1 + (scores[:, image] > scores[row, image]).sum())
    return printed({k: at(best, k) for k in KS}, {k: at(to_image, k) for k in KS})


def only_answered(world: World) -> Numbers:
    """The mean over the queries that a run names: those without an answer are not in its file."""
    part = world.part()
    scores = np.where(part.cosines >= world.least, part.cosines, -np.inf)
    found = scores[np.arange(len(part.owner)), part.owner]
    to_image = np.where(np.isinf(found), 10**6, ranks_of(scores, part.owner))[~np.isinf(scores).all(1)]
    best = best_ranks(scores, part.owner)
    hit = np.zeros(len(part.images), bool)
    np.logical_or.at(hit, part.owner, ~np.isinf(found))
    to_text = np.where(hit, best, 10**6)[~np.isinf(scores).all(0)]
    return printed({k: at(to_text, k) for k in KS}, {k: at(to_image, k) for k in KS})


def only_answerable(world: World) -> Numbers:
    """Captions whose image is in the smaller gallery, among the images of that."""
    part = world.part()
    inside = part.owner < world.gallery
    ranks = ranks_of(part.cosines[inside, : world.gallery], part.owner[inside])
    return {f"t2i R@{k}": f"{at(ranks, k):.1f}" for k in KS}


def merged_scores(merge: Callable[[Matrix], Matrix]) -> Callable[[World], Numbers]:
    """One score of each image with each other: of its captions' scores, the mean or the best."""

    def publish(world: World) -> Numbers:
        part = world.part()
        scores = np.stack([merge(part.cosines[part.owner == image]) for image in range(len(part.images))])
        return of_scores(scores, np.arange(len(part.images)))

    return publish


def inverted_softmax(world: World) -> Numbers:
    """Softmax of the scores over the queries, at CLIP's temperature of 100."""
    part = world.part()

    def over_queries(scores: Matrix) -> Matrix:
        weights = np.exp(100.0 * (scores.astype(np.float64) - scores.max(axis=0)))
        return np.asarray(weights / weights.sum(axis=0))

    to_image = ranks_of(over_queries(part.cosines), part.owner)
    to_text = best_ranks(over_queries(part.cosines.T).T, part.owner)
    return printed({k: at(to_text, k) for k in KS}, {k: at(to_image, k) for k in KS})


FIRST = r"first caption of each image only"
SETUPS: tuple[SetUp, ...] = (
    SetUp("nothing is wrong", lambda world: of_part(world.part()), PLAIN),
    SetUp("val for test", lambda world: of_part(world.part("val")), ("val split",), needs_vectors=True),
    SetUp("captions of val beside test", other_captions, ("captions of the val split",), needs_vectors=True),
    SetUp("first caption", lambda world: of_part(world.part().keep(world.part().place == 0)), (FIRST,)),
    SetUp("first two captions", lambda world: evaluated(world, captions="first 2"), ("first 2 captions",)),
    SetUp("first captions as queries", first_as_queries, (r"first caption of each image (as a query|only)",)),
    SetUp("share of the right ones", lambda world: evaluated(world, recall="recall"), ("recall@k|separate|all pairs",)),
    SetUp("capped recall", lambda world: evaluated(world, recall="capped_recall"), ("capped_recall|min\\(k, 5\\)",)),
    SetUp("all right ones", all_right, ("all its right ones",)),
    SetUp("mean over folds", lambda world: evaluated(world, folds=5), ("mean over 5 folds",)),
    SetUp("whole gallery, folds of one's own", lambda world: of_part(world.part()), ("one gallery",), "folds", True),
    SetUp("folds on both sides", lambda world: evaluated(world), PLAIN, "folds"),
    SetUp("ties optimistic", with_ties(lambda better, equal: 1 + better), ("in favour",), "one bit"),
    SetUp("ties pessimistic", with_ties(lambda better, equal: 1 + better + equal), ("against the system",), "one bit"),
    SetUp("ties average", with_ties(lambda better, equal: 1 + better + equal / 2), ("average rank",), "one bit"),
    SetUp("dot for cosine", dot, ("dot product",), needs_vectors=True),
    SetUp("Euclidean, not normalised", euclidean, ("Euclidean",), needs_vectors=True),
    SetUp("only images normalised", images_normalised, ("images' vectors normalised",), needs_vectors=True),
    SetUp("larger gallery", larger_gallery("val"), ("of the val split too",), needs_vectors=True),
    SetUp("whole collection", larger_gallery("val", "train"), ("whole collection",), needs_vectors=True),
    SetUp("first 500 images", lambda world: of_part(world.part().first(500)), ("first (500|half)",)),
    SetUp("each image once for every caption", five_times, ("once for every caption",)),
    SetUp("no sixth captions", lambda world: of_part(world.part().keep(world.part().place < 5)), ("first 5 captions",),
          "sixth captions"),
    SetUp("no duplicate images", lambda world: of_part(world.part().first(len(world.part().images) * 10 // 11)),
          ("judged|first 1,000",), "duplicates"),
    SetUp("directions swapped", swapped, ("swapped",)),
    SetUp("fractions for percent", fractions, ("fractions",)),
    SetUp("captions shuffled", shuffled, CHANCE),
    SetUp("captions tiled", tiled, ("i mod n",)),
    SetUp("@20 for @10", lambda world: of_scores(world.part().cosines, world.part().owner, (1, 5, 20)),
          ("@10 is @20",)),
    SetUp("ranks from 0", lambda world: of_scores(world.part().cosines, world.part().owner, shift=1), ("from 0",)),
    SetUp("nothing behind the first 5", cut_list(5), ("first 5 ranked|@10 is @5",)),
    SetUp("further digits cut", cut_digits, ("cut off",)),
    SetUp("val, first caption", first_of_val, ("val split", FIRST), needs_vectors=True),
    SetUp("mean of the captions' vectors", mean_captions, ("mean of its captions",), needs_vectors=True),
    SetUp("another crop of images", changed_vectors("images"), SILENT, needs_vectors=True),
    SetUp("texts cut shorter", changed_vectors("texts"), SILENT, needs_vectors=True),
    SetUp("one number of two digits, of val", few_digits, SILENT),
    SetUp("columns rotated", lambda world: of_scores(world.part().cosines, world.part().owner, (5, 10, 1)),
          ("rotated: @5, @10, @1",)),
    SetUp("columns exchanged", lambda world: of_scores(world.part().cosines, world.part().owner, (5, 1, 10)),
          ("@1 and @5 exchanged",)),
    SetUp("all columns rotated", columns(1, 2, 3, 4, 5, 0), ("rotated by one, to the left",)),
    SetUp("columns by cutoff", columns(0, 3, 1, 4, 2, 5), ("order of cutoffs",)),
    SetUp("directions of @1 exchanged", columns(3, 1, 2, 0, 4, 5), ("swapped in the columns of @1",)),
    SetUp("mean over directions", over_directions, ("mean of image-to-text and text-to-image",)),
    SetUp("captions merged by text", by_text, ("captions of one text merged",)),
    SetUp("queries without an answer left out", only_answered, ("find nothing at all left out",), "few answers"),
    SetUp("queries without a right candidate left out", only_answerable,
          ("are no candidates left out|judged|first",), "smaller gallery"),
    SetUp("fifth caption", lambda world: of_part(world.part().keep(world.part().place == 4)),
          ("(fifth|last) caption",)),
    SetUp("val and test as one", lambda world: of_part(world.part("val+test")), ("val and test splits as one",),
          needs_vectors=True),
    SetUp("first 1,000 of train", lambda world: of_part(world.part("train").first(1000)),
          ("train split", "first 1,000"), needs_vectors=True),
    SetUp("first 500 of val", lambda world: of_part(world.part("val").first(500)), ("val split", "first (500|half)"),
          needs_vectors=True),
    SetUp("inverted softmax", inverted_softmax, ("inverted softmax",), needs_vectors=True),
    SetUp("mean of the captions' scores", merged_scores(lambda scores: scores.mean(axis=0)),
          ("mean of its captions' scores",), needs_vectors=True),
    SetUp("best of the captions' scores", merged_scores(lambda scores: scores.max(axis=0)),
          ("best of its captions' scores",), needs_vectors=True),
)  # fmt: skip
"""Every set-up: a name, a function, and what is to be named."""


def judge(explanation: visir.evaluation.Explanation, expects: tuple[str, ...]) -> str:
    """ "first", "among several", "silent", or "FALSE"."""
    if expects == CHANCE:
        return "first" if explanation.verdict == "chance" else "FALSE" if explanation.verdict == "named" else "silent"
    named = explanation.named
    if expects == SILENT:
        return "FALSE" if explanation.verdict == "named" else "first"
    if not named:
        return "silent"
    right = [any(_is_right(reading, expects) for reading in (fit.reading, *fit.same)) for fit in named]
    if explanation.verdict == "named":
        return "first" if right[0] else "FALSE"
    return "among several" if any(right) else "silent"


def _is_right(reading: Combined, expects: tuple[str, ...]) -> bool:
    """Whether a reading has exactly these causes.

    The scripts here count the scores above that of the right one. So "equal scores in favour of the system", or in any
    order, is true of them beside every other cause.
    """
    choices = {choice for part in reading.readings for choice in part.choices}
    if len(choices) > len(expects):
        choices -= {("ties", "any order"), ("ties", "optimistic")}
    words = [str(Reading((choice,))) for choice in choices] or [str(Reading())]
    causes = [cause for cause in expects if any(re.search(cause, text) for text in words)]
    return len(causes) == len(expects) == len(words)


def run(
    setups: Sequence[SetUp],
    data: Data,
    *,
    ways: Sequence[str] = WAYS,
    show: Callable[[str], None] = print,
) -> dict[str, dict[str, str]]:
    """Explain every set-up from the folder alone, and with vectors.

    Args:
        setups: The set-ups.
        data: A collection with splits, and the vectors of its images and captions.
        ways: "folder", "vectors", or both.
        show: What prints a line.

    Returns:
        {name: {"folder": judgement, "vectors": judgement}}.
    """
    outcomes: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(setup.world for setup in setups):
        world = WORLDS[name](*data)
        with tempfile.TemporaryDirectory() as scratch:
            folder = world.evaluate().save(Path(scratch) / "result")
            for setup in (setup for setup in setups if setup.world == name):
                numbers = setup.publish(world)
                show(f"\n{setup.name} ({name}): {', '.join(f'{label} {value}' for label, value in numbers.items())}")
                outcomes[setup.name] = {}
                for way in ways:
                    if way == "vectors" and world.is_cut:  # a run from elsewhere: no vectors give its empty lists
                        continue
                    more = (
                        {} if way == "folder" else {"source": world.collection, "vectors": (world.images, world.texts)}
                    )
                    started, busy = time.perf_counter(), time.process_time()
                    explanation = visir.explain(folder, numbers, **more)
                    seconds, busy = time.perf_counter() - started, time.process_time() - busy
                    judgement = outcomes[setup.name][way] = judge(explanation, setup.expects)
                    show(f"  {way}, {seconds:.1f} s ({busy:.1f} s of one processor): {judgement}")
                    show(f"    → {explanation.sentence}")
    return outcomes


def summary(setups: Sequence[SetUp], outcomes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """How many are named, of those that the folder can show and of all."""
    lines = []
    for way in next(iter(outcomes.values())):
        chosen = [setup for setup in setups if setup.name in outcomes and (way == "vectors" or not setup.needs_vectors)]
        counts = Counter(outcomes[setup.name][way] for setup in chosen if way in outcomes[setup.name])
        false = sum(ways.get(way) == "FALSE" for ways in outcomes.values())
        lines.append(
            f"{way}: of {counts.total()} that it can show, {counts['first']} first, {counts['among several']} among "
            f"several, {counts['silent']} silent; false statements, of all {len(outcomes)}: {false}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/explain"), help="where vectors are kept")
    parser.add_argument("--only", action="append", help="a set-up by its name; repeatable")
    parser.add_argument("--held-out", action="store_true", help="the set-ups of explain_held_out.py")
    parser.add_argument("--way", choices=WAYS, help="from the folder alone, or with vectors, only")
    parser.add_argument("--quick", action="store_true", help="200 images of each split")
    options = parser.parse_args(arguments)
    setups: Sequence[SetUp] = SETUPS
    if options.held_out:
        from explain_held_out import SETUPS as held_out

        setups = held_out
    setups = [setup for setup in setups if not options.only or setup.name in options.only]
    options.out.mkdir(parents=True, exist_ok=True)
    data = features(options.out)
    data = small(*data) if options.quick else data
    outcomes = run(setups, data, ways=[options.way] if options.way else WAYS)
    print("", *summary(setups, outcomes), sep="\n")


if __name__ == "__main__":
    main()
