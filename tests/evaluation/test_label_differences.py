"""Results by language: labels of captions, differences over common images, the map, the page."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import visir
from refusals import refused
from visir.errors import VisirError
from visir.evaluation.by_label import label_differences, value_difference
from visir.records import Collection
from visir.reports import evaluation_report
from visir.reports.by_label import differences_table
from visir.stats.means import median_interval

IMAGES = [f"{number}.jpg" for number in range(12)]
LANGUAGES = ("en", "de", "zh")
NOISE = {"en": 0.2, "de": 1.0, "zh": 3.0}


def _collection(languages: tuple[str, ...] = LANGUAGES, lacking: int = 0) -> Collection:
    rows = [(f"{image}#{language}", f"{language} {image}", image, language) for language in languages
            for image in (IMAGES if language == "en" else IMAGES[lacking:])]  # fmt: skip
    columns = dict(zip(("id", "text", "image_id", "language"), map(list, zip(*rows, strict=True)), strict=True))
    return Collection.build("toy", images={"id": IMAGES}, captions=columns)


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(3)
    images = {image: rng.normal(size=6) for image in IMAGES}
    texts = {f"{image}#{language}": images[image] + NOISE[language] * rng.normal(size=6)
             for language in LANGUAGES for image in IMAGES}  # fmt: skip
    return {"image": images, "text": texts}


def test_captions_are_queries_with_languages(vectors) -> None:
    evaluation = visir.evaluate(_collection(), vectors=vectors)
    rows = {row.label: row for row in evaluation.by("language", "R@1").rows}
    assert sorted(rows) == sorted(LANGUAGES)
    assert [row.queries for row in rows.values()] == [12, 12, 12]
    assert [row.task for row in rows.values()] == ["t2i"] * 3, "pictures have no language"
    assert "i2t: captions in 3 languages are searched together; language= keeps one" in evaluation.notes
    alone = visir.evaluate(_collection().keep_languages("de"), vectors=vectors)
    assert rows["de"].values["hit@1"].mean == alone["t2i R@1"]


def test_differences_are_those_of_a_paired_test(vectors) -> None:
    evaluation = visir.evaluate(_collection(lacking=2), vectors=vectors, measures=["R@1", "MRR"])
    differences = evaluation.differences("language", "MRR")
    assert (differences.reference, differences.values, differences.tasks) == ("en", LANGUAGES, ("t2i",))
    queries = evaluation.per_query["t2i"]
    by_caption = dict(zip(queries["query_id"].to_pylist(), queries["mrr"].to_pylist(), strict=True))
    english, german = ([by_caption[f"{image}#{code}"] for image in IMAGES[2:]] for code in ("en", "de"))
    row = differences["de", "en"]
    test = stats.ttest_rel(german, english)
    interval = test.confidence_interval(0.95)
    assert (row.units, row.paired) == (10, True)
    assert row.difference == pytest.approx(np.mean(german) - np.mean(english))
    assert (row.low, row.high) == pytest.approx((interval.low, interval.high))
    p_values = [stats.ttest_rel(*([by_caption[f"{image}#{code}"] for image in IMAGES[2:]] for code in pair)).pvalue
                for pair in (("en", "de"), ("en", "zh"), ("de", "zh"))]  # fmt: skip
    assert row.p == pytest.approx(_holm(p_values)[0])
    other = differences["en", "de"]
    assert (other.difference, other.low, other.high) == (-row.difference, -row.high, -row.low)


def _holm(p_values: list[float]) -> list[float]:
    order = np.argsort(p_values)
    running, result = 0.0, [0.0] * len(p_values)
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        result[index] = running
    return result


def test_values_without_common_images_are_independent_samples() -> None:
    half = Collection.build(
        "toy",
        images={"id": IMAGES},
        captions={"id": [f"c{n:02}" for n in range(12)], "text": ["x"] * 12, "image_id": IMAGES,
                  "language": ["en"] * 6 + ["de"] * 6},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    images = {image: rng.normal(size=4) for image in IMAGES}
    texts = {f"c{n:02}": images[image] + rng.normal(size=4) for n, image in enumerate(IMAGES)}
    evaluation = visir.evaluate(half, vectors={"image": images, "text": texts}, measures=["MRR"])
    row = evaluation.differences("language")["de", "en"]
    values = evaluation.values("t2i", "MRR")
    assert not row.paired
    assert row.difference == pytest.approx(values[6:].mean() - values[:6].mean())
    # exact where both have one distribution: of the 924 ways to give 12 images to two languages, so many are as far out
    every = [np.isin(np.arange(12), list(chosen)) for chosen in itertools.combinations(range(12), 6)]
    t = [abs(stats.ttest_ind(values[of], values[~of], equal_var=False).statistic) for of in every]
    observed = abs(stats.ttest_ind(values[6:], values[:6], equal_var=False).statistic)
    assert row.p == pytest.approx(np.mean(np.array(t) >= observed * (1 - 1e-9)), abs=0.03)
    assert row.low < row.difference < row.high


def test_table_map_and_page(vectors, tmp_path) -> None:
    evaluation = visir.evaluate(_collection(), vectors=vectors)
    differences = evaluation.differences("language", "R@1", reference="de")
    table = differences_table(differences)
    assert [row[1] for row in table.rows] == ["en", "zh"]
    assert "against de" in table.caption
    assert differences.to_arrow().num_rows == 6
    texts = {text.get_text() for text in differences.plot().axes[0].texts}
    assert len(texts) >= 2
    page = evaluation_report(evaluation.result).write(tmp_path / "report.html").read_text()
    assert "By language" in page
    assert "row minus column" in page
    saved = visir.open(evaluation.save(tmp_path / "saved"))
    assert saved.differences("language", "R@1", reference="de").rows == differences.rows


def test_names_what_is_not_there(vectors) -> None:
    evaluation = visir.evaluate(_collection(), vectors=vectors)
    with refused(VisirError, "language", "it", code="no-such-row"):
        evaluation.differences("language", reference="it")
    with pytest.raises(VisirError, match="no two values of a label 'langage'"):
        evaluation.differences("langage")
    german = visir.evaluate(_collection().keep_languages("de"), vectors=vectors)
    with pytest.raises(VisirError, match="no two values"):
        label_differences(german.result, "language", "hit@1")


def _two(values, others):
    """`value_difference` of two samples without a common image."""
    return value_difference(values, np.arange(len(values)), others, len(values) + np.arange(len(others)))


def test_two_independent_shares_by_hand() -> None:
    """56/70 − 48/80 from exact intervals of both shares (0.6873 to 0.8861 and 0.4844 to 0.7080)."""
    hits = [np.r_[np.ones(56), np.zeros(14)], np.r_[np.ones(48), np.zeros(32)]]
    units, paired, first, second, low, high, p = _two(*hits)
    assert (units, paired, first, second) == (150, False, 0.8, 0.6)
    exact = [stats.binomtest(*side).proportion_ci(method="exact") for side in ((56, 70), (48, 80))]
    assert low == pytest.approx(0.2 - np.hypot(0.8 - exact[0].low, exact[1].high - 0.6))
    assert high == pytest.approx(0.2 + np.hypot(exact[0].high - 0.8, 0.6 - exact[1].low))
    # p is the error at which the interval begins to hold 0
    touching = [stats.binomtest(*side).proportion_ci(1 - p, method="exact") for side in ((56, 70), (48, 80))]
    assert np.hypot(0.8 - touching[0].low, touching[1].high - 0.6) == pytest.approx(0.2)
    # nothing varies: Welch's test has no spread, exact intervals do
    *_, low, high, p = _two(np.ones(10), np.zeros(20))
    assert 0 < low < 1 == pytest.approx(high)
    assert p < 1e-4
    *_, low, high, p = _two(np.zeros(10), np.zeros(20))
    assert low < 0 < high
    assert p == 1


def test_two_independent_means_are_nearly_welchs() -> None:
    rng = np.random.default_rng(0)
    values, others = rng.normal(size=120), rng.normal(0.5, 3, 300)
    units, paired, *_, low, high, p = _two(values, others)
    theirs = stats.ttest_ind(values, others, equal_var=False)
    assert (units, paired) == (420, False)
    assert p == pytest.approx(theirs.pvalue, abs=0.02)
    assert [low, high] == pytest.approx(list(theirs.confidence_interval()), abs=0.05)
    *_, p = _two(values, others + 3)
    assert p == pytest.approx(stats.ttest_ind(values, others + 3, equal_var=False).pvalue, rel=0.9)  # beyond the draws


def _hits(share, rng, size):
    return (rng.random(size) < share).astype(float)


def _captions(draw, rng, images):
    """Values of captions, of which half have the value of their image, and the images."""
    units = np.repeat(np.arange(images), rng.choice([1, 2, 5], images))
    return np.where(rng.random(len(units)) < 0.5, draw(rng, images)[units], draw(rng, len(units))), units


WORLDS = {
    "2 % are hits": lambda rng, size: _hits(0.02, rng, size),
    "10 % are hits": lambda rng, size: _hits(0.1, rng, size),
    "half are hits": lambda rng, size: _hits(0.5, rng, size),
    "95 % are hits": lambda rng, size: _hits(0.95, rng, size),
    "10 % are above 0": lambda rng, size: _hits(0.1, rng, size) * rng.beta(2, 2, size),
    "long tail": lambda rng, size: np.exp(1.5 * rng.normal(size=size)),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("captions", [False, True])
@pytest.mark.parametrize("sizes", [(120, 15), (100, 3), (20, 20)])
def test_p_and_interval_of_a_difference_that_is_none(world, sizes, captions) -> None:
    """At most 5 % are found, up to chance, and p is below 5 % exactly where the interval leaves out 0."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(40):
        if captions:
            sides = [_captions(WORLDS[world], rng, size) for size in sizes]
            (first, units), (second, others) = sides
            *_, low, high, p = value_difference(first, units, second, others + sizes[0])
        else:
            *_, low, high, p = _two(*(WORLDS[world](rng, size) for size in sizes))
        assert (p < 0.05) == (low > 0 or high < 0)
        found += p < 0.05
    assert found <= 6  # P(more | 5 %) is 0.3 %


def test_few_images_and_sides_that_do_not_vary() -> None:
    """Groups of 1 to 5 images, of hits that all are, or none: p and interval agree, and little is claimed."""
    for few, many in itertools.product(range(1, 6), (1, 5, 1_000)):
        for first, second in itertools.product((0.0, 1.0), repeat=2):
            *_, low, high, p = _two(np.full(few, first), np.full(many, second))
            assert low - 1e-9 <= first - second <= high + 1e-9
            assert (p < 0.05) == (low > 0 or high < 0)
            assert p == 1 if first == second else p < 1
    assert _two(np.zeros(2), np.ones(2))[-1] > 0.05
    assert np.isnan(_two(np.array([0.3]), np.array([0.5, 0.7, 0.2]))[-1])  # one graded value has no spread
    assert np.isnan(_two(np.full(5, 0.3), np.full(5, 0.7))[-1])


@pytest.mark.parametrize("images", [2, 5, 7, 9, 12, 40])
@pytest.mark.parametrize("kind", ["hits", "hits that differ", "shares", "of one size"])
def test_p_and_interval_of_common_images_agree(images, kind) -> None:
    rng, found = np.random.default_rng(1), 0
    for _ in range(100):
        first, second = _hits(0.5, rng, images), _hits(0.5, rng, images)
        if kind == "hits that differ":
            second = 1 - first
        elif kind == "shares":
            first, second = rng.beta(0.5, 0.5, (2, images))
        elif kind == "of one size":
            first, second = np.full(images, 0.5), 0.5 + rng.choice([-0.1, 0.1], images)
        number, paired, *_, low, high, p = value_difference(first, np.arange(images), second, np.arange(images))
        assert (number, paired) == (images, True)
        assert (p < 0.05) == (low > 0 or high < 0) or (np.ptp(first - second) == 0 and np.isnan(low))
        found += p < 0.05
    assert found <= 13


def test_ranks_are_compared_by_their_logarithms_and_medians_not(vectors) -> None:
    rng = np.random.default_rng(2)
    ranks, others = np.ceil(np.exp(rng.normal(size=(2, 30)) * 2 + 2))
    *_, low, high, p = value_difference(ranks, np.arange(30), others, np.arange(30), of_ranks=True)
    difference = np.log(ranks) - np.log(others)
    agree = difference.mean() * (ranks.mean() - others.mean()) >= 0
    assert np.isnan([low, high]).all()
    assert p == pytest.approx(stats.ttest_1samp(difference, 0).pvalue) if agree else np.isnan(p)
    evaluation = visir.evaluate(_collection(), vectors=vectors, measures=["mean_rank", "median_rank"])
    row = evaluation.differences("language", "mean_rank")["zh", "en"]
    assert np.isnan(row.low)
    assert row.p < 1
    with refused(VisirError, "two medians"):
        evaluation.differences("language", "median_rank")


def test_a_label_has_the_interval_of_the_median(vectors) -> None:
    """Of `median_rank` the median is printed: so its interval, from the ranks themselves, and not that of the mean."""
    evaluation = visir.evaluate(_collection(), vectors=vectors, measures=["median_rank"])
    ranks, queries = evaluation.values("t2i", "median_rank"), evaluation.per_query["t2i"]["query_id"].to_pylist()
    by_language = evaluation.by("language", ["median_rank"])
    for language in LANGUAGES:
        value = by_language[language].values["median_rank"]
        own = np.sort(ranks[[query.endswith(language) for query in queries]])
        assert value.mean == np.median(own)
        assert (value.low, value.high) == (own[2], own[9])  # P(two or fewer of 12 lie below) is 1.9 %


def test_an_interval_of_a_median_holds_it() -> None:
    for count in range(1, 200):
        low, high = median_interval(np.arange(count))
        if np.isnan(low):
            assert 2 / 2**count > 0.05
            continue
        assert low + high == count - 1
        assert 2 * stats.binom.cdf(low, count, 0.5) <= 0.05 + 1e-9
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):  # captions of one image have one value: 40 images, not 200 captions
        low, high = median_interval(np.repeat(rng.exponential(size=40), 5), np.repeat(np.arange(40), 5))
        held += low <= np.log(2) <= high
    assert held >= 279
    assert median_interval([1, 2, 3, np.inf, np.inf, np.inf, np.inf, np.inf])[1] == np.inf
