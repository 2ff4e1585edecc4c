"""Set-ups by somebody who has not seen how readings are computed; `explain_setups.py --held-out` runs them.

    SetUp("val for test", lambda world: of_part(world.part("val")), ("val split",), needs_vectors=True)

A set-up is a function of a world (`explain_worlds.World`) that returns printed numbers, {"i2t R@1": "20.5", …}, and one
regular expression for each cause that the answer is to name; see `SetUp`.
"""

from __future__ import annotations

import numpy as np

from explain_setups import (
    PLAIN,
    SILENT,
    Numbers,
    SetUp,
    at,
    best_ranks,
    of_part,
    of_scores,
    printed,
    ranks_of,
    ranks_of_pairs,
)
from explain_worlds import KS, Part, World, unit

FOLDS = 5

# What any wording of a cause contains
VAL = r"(?i)\bval(id\w*)?\b"
SWAPPED = r"(?i)swap|revers|exchang|interchang|transpos|mixed up|directions"
WITHIN_FOLDS = r"(?i)\bfolds?\b|\bfifths?\b"
FRACTION = r"(?i)fraction|per ?cent|%|hundred|between 0 and 1|0 to 1|of 1\b"
DOT = r"(?i)\bdot\b|inner product|scalar product|not normali[sz]ed|un-?normali[sz]ed|without normali[sz]|length"
FIRST_CAPTION = r"(?i)(first|one|single|1) captions?\b|caption (1|one)\b|captions? per image"
OPTIMISTIC = r"(?i)\bties?\b|\btied\b|equal scores?|same score|optimis"
ONE_FOLD = r"(?i)(first|one|single|1) (fold|fifth)|fold (0|1|one)\b|first \d+ (test )?images|only .*\bfold"
ANY_CAPTION = (
    r"(?i)\bany\b|\bbest\b|at least one|one of (its|the)|group|together|quer(y|ies) (per|of|for) (an|each|every|one)"
)
ONE_IS_RIGHT = r"(?i)(first|one|single|1) (of the )?(captions?|right|positives?|relevant)|caption (1|one)\b"
DUAL_SOFTMAX = r"(?i)softmax|\bdual\b|hub|(over|across) (all )?(the )?(other )?queries"


# One mistake or none --------------------------------------------------------------------------------------------------


def fold_of(part: Part, number: int) -> Part:
    """One of five folds of images in the order of the file, with their captions."""
    size = len(part.images) // FOLDS
    start, stop = number * size, (number + 1) * size
    keep = (part.owner >= start) & (part.owner < stop)
    return Part(part.images[start:stop], part.texts[keep], part.owner[keep] - start, part.ids[start:stop])


def sorted_ranks(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Ranks from 0, by a loop over sorted lists: of the best caption for each image, of the image for each caption."""
    scores = unit(part.images) @ unit(part.texts).T  # (images, captions)
    to_text = np.empty(len(part.images), np.int64)
    for image in range(len(part.images)):
        order = np.argsort(scores[image], kind="stable")[::-1]
        to_text[image] = np.flatnonzero(part.owner[order] == image).min()
    to_image = np.empty(len(part.texts), np.int64)
    for caption, image in enumerate(part.owner):
        order = np.argsort(scores[:, caption], kind="stable")[::-1]
        to_image[caption] = np.flatnonzero(order == image)[0]
    return to_text, to_image


def over_folds(part: Part, unit_of: float = 100.0, decimals: int = 2) -> Numbers:
    """The mean of five folds of images with their captions."""
    ranks = [sorted_ranks(fold_of(part, number)) for number in range(FOLDS)]
    to_text = {k: unit_of * float(np.mean([(fold[0] < k).mean() for fold in ranks])) for k in KS}
    to_image = {k: unit_of * float(np.mean([(fold[1] < k).mean() for fold in ranks])) for k in KS}
    return printed(to_text, to_image, decimals)


def sorted_folds(world: World) -> Numbers:
    """Nothing wrong: the result is within five folds, and so is this."""
    return over_folds(world.part())


def first_fold(world: World) -> Numbers:
    """`fold5=True` forgotten in the loop: the first of the five folds alone stands for their mean."""
    return of_part(fold_of(world.part(), 0))


def any_caption_finds(world: World) -> Numbers:
    """One t2i value for each image, found if any of its captions finds it: the maximum over the group of queries."""
    part = world.part()
    ranks = ranks_of(part.cosines, part.owner)
    best = np.array([ranks[part.owner == image].min() for image in range(len(part.images))])
    to_text = best_ranks(part.cosines, part.owner)
    return printed({k: at(to_text, k) for k in KS}, {k: at(best, k) for k in KS})


def one_label(world: World) -> Numbers:
    """i2t with one label per image, its first caption: the other four are in the gallery and count as wrong."""
    part = world.part()
    labelled = ranks_of_pairs(part.cosines, part.owner)[part.place == 0]
    to_image = ranks_of(part.cosines, part.owner)
    return printed({k: at(labelled, k) for k in KS}, {k: at(to_image, k) for k in KS})


def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    """Softmax along an axis."""
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def dual_softmax(world: World) -> Numbers:
    """Similarities times their softmax over all test queries, which looks at the other queries of the test split."""
    part = world.part()
    scores = part.cosines.astype(np.float64)
    to_image = ranks_of(scores * softmax(100 * scores, axis=0), part.owner)  # over the captions that ask
    to_text = best_ranks(scores * softmax(100 * scores, axis=1), part.owner)  # over the images that ask
    return printed({k: at(to_text, k) for k in KS}, {k: at(to_image, k) for k in KS})


# Two mistakes ---------------------------------------------------------------------------------------------------------


def val_swapped(world: World) -> Numbers:
    """The last validation of the training log, with the (captions, images) matrix taken for (images, captions)."""
    part = world.part("val")
    to_text, to_image = best_ranks(part.cosines, part.owner), ranks_of(part.cosines, part.owner)
    return printed({k: at(to_image, k) for k in KS}, {k: at(to_text, k) for k in KS})


def folds_as_fractions(world: World) -> Numbers:
    """The mean over five folds beside a result on the whole split, and not times 100."""
    return over_folds(world.part(), 1.0, 3)


def first_caption_by_dot(world: World) -> Numbers:
    """`captions[0]` of each image, and the normalisation forgotten."""
    part = world.part()
    first = part.keep(part.place == 0)
    return of_scores(first.texts @ first.images.T, first.owner)


def val_with_lucky_ties(world: World) -> Numbers:
    """Binary codes of the validation split; a rank is 1 + the number of strictly better candidates."""
    part = world.part("val")
    return of_scores(part.texts @ part.images.T, part.owner)


# What cannot be computed ----------------------------------------------------------------------------------------------


def random_images(world: World) -> Numbers:
    """Half of the test images drawn at random, with all their captions."""
    part = world.part()
    chosen = np.sort(np.random.default_rng(2024).permutation(len(part.images))[: len(part.images) // 2])
    place = np.full(len(part.images), -1)
    place[chosen] = np.arange(len(chosen))
    keep = place[part.owner] >= 0
    return of_scores(unit(part.texts[keep]) @ unit(part.images[chosen]).T, place[part.owner[keep]])


def random_caption(world: World) -> Numbers:
    """`random.choice(captions)` of the training data set class, left on in evaluation: one caption of each image."""
    part, random = world.part(), np.random.default_rng(42)
    chosen = [int(random.choice(np.flatnonzero(part.owner == image))) for image in range(len(part.images))]
    return of_scores(unit(part.texts[chosen]) @ unit(part.images).T, np.arange(len(part.images)))


def another_model(world: World) -> Numbers:
    """Another head: a ridge regression from captions to images of the training split."""
    train, test = world.part("train"), world.part()
    texts, images = unit(train.texts).astype(np.float64), unit(train.images).astype(np.float64)[train.owner]
    gram = texts.T @ texts
    weights = np.linalg.solve(gram + 0.01 * len(texts) / len(gram) * np.eye(len(gram)), texts.T @ images)
    return of_scores(unit(unit(test.texts) @ weights) @ unit(test.images).T, test.owner)


SETUPS: tuple[SetUp, ...] = (
    SetUp("sorted lists within folds", sorted_folds, PLAIN, world="folds"),
    SetUp("first fold alone", first_fold, (ONE_FOLD,), world="folds"),
    SetUp("any caption finds the image", any_caption_finds, (ANY_CAPTION,)),
    SetUp("one label per image", one_label, (ONE_IS_RIGHT,)),
    SetUp("dual softmax over the test queries", dual_softmax, (DUAL_SOFTMAX,), needs_vectors=True),
    SetUp("val, directions swapped", val_swapped, (VAL, SWAPPED), needs_vectors=True),
    SetUp("mean over folds as fractions", folds_as_fractions, (WITHIN_FOLDS, FRACTION), needs_vectors=True),
    SetUp("first caption, dot for cosine", first_caption_by_dot, (FIRST_CAPTION, DOT), needs_vectors=True),
    SetUp("val, ties optimistic", val_with_lucky_ties, (VAL, OPTIMISTIC), world="one bit", needs_vectors=True),
    SetUp("random half of the images", random_images, SILENT),
    SetUp("random caption of each image", random_caption, SILENT),
    SetUp("another model", another_model, SILENT),
)
"""Every held-out set-up."""
