"""Results by language: labels of captions, differences over common images, the map, the page."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import visir
from visir.errors import VisirError
from visir.evaluation.label_differences import label_differences, value_difference
from visir.records import Collection
from visir.reports import write_report
from visir.reports.views import label_differences as view

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
    test = stats.ttest_ind(values[6:], values[:6], equal_var=False)
    assert not row.paired
    assert row.p == pytest.approx(test.pvalue, rel=1e-6)
    interval = test.confidence_interval(0.95)
    assert (row.low, row.high) == pytest.approx((interval.low, interval.high))


def test_table_map_and_page(vectors, tmp_path) -> None:
    evaluation = visir.evaluate(_collection(), vectors=vectors)
    differences = evaluation.differences("language", "R@1", reference="de")
    table = view.table(differences)
    assert [row[1] for row in table.rows] == ["en", "zh"]
    assert "against de" in table.caption
    assert differences.to_arrow().num_rows == 6
    texts = {text.get_text() for text in differences.plot().axes[0].texts}
    assert len(texts) >= 2
    page = write_report(tmp_path / "report.html", evaluation.result).read_text()
    assert "By language" in page
    assert "row minus column" in page
    saved = visir.open(evaluation.save(tmp_path / "saved"))
    assert saved.differences("language", "R@1", reference="de").rows == differences.rows


def test_names_what_is_not_there(vectors) -> None:
    evaluation = visir.evaluate(_collection(), vectors=vectors)
    with pytest.raises(VisirError, match="no language is 'it'"):
        evaluation.differences("language", reference="it")
    with pytest.raises(VisirError, match="no two values of a label 'langage'"):
        evaluation.differences("langage")
    german = visir.evaluate(_collection().keep_languages("de"), vectors=vectors)
    with pytest.raises(VisirError, match="no two values"):
        label_differences(german.result, "language", "hit@1")


def test_two_independent_shares_by_hand() -> None:
    """Newcombe's example (1998, table II, method 10): 56/70 − 48/80, 95 % interval 0.0524 to 0.3339."""
    hits = [np.r_[np.ones(56), np.zeros(14)], np.r_[np.ones(48), np.zeros(32)]]
    units, paired, first, second, low, high, _ = value_difference(hits[0], np.arange(70), hits[1], np.arange(70, 150))
    assert (units, paired, first, second) == (150, False, 0.8, 0.6)
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))
    # 10/10 − 0/20 (the same table): 0.6791 to 1
    *_, low, high, p = value_difference(np.ones(10), np.arange(10), np.zeros(20), np.arange(10, 30))
    assert (low, high) == (pytest.approx(0.6791, abs=5e-5), pytest.approx(1.0))
    assert np.isnan(p)  # neither side varies, so Welch's test has no spread


def test_two_independent_means_are_welchs() -> None:
    rng = np.random.default_rng(0)
    values, others = rng.normal(size=12), rng.normal(0.5, 3, 30)
    units, paired, *_, low, high, p = value_difference(values, np.arange(12), others, np.arange(12, 42))
    theirs = stats.ttest_ind(values, others, equal_var=False)
    assert (units, paired) == (42, False)
    assert p == pytest.approx(theirs.pvalue)
    assert (low, high) == pytest.approx(theirs.confidence_interval(), rel=1e-9)
