"""Published values as people have them at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation_toys import make_collection, random_pair

import visir
from manifests import write_json
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.published import PublishedRow
from visir.evaluation.published.judge import published_row

COLLECTION = make_collection(40, 5)


@pytest.fixture(scope="module")
def evaluation() -> visir.Evaluation:
    return visir.evaluate(COLLECTION, random_pair(COLLECTION, noise=1.5))


def test_a_dictionary_a_nested_one_and_a_row_are_one_thing(evaluation: visir.Evaluation) -> None:
    printed = {task: round(100 * evaluation.mean(task, "capped_recall@5"), 1) for task in ("t2i", "i2t")}
    flat = visir.explain(evaluation, {f"{task} R@5": value for task, value in printed.items()})
    nested = visir.explain(evaluation, published={task: {"R@5": value} for task, value in printed.items()})
    row = PublishedRow("the published system", {task: {"R@5": value} for task, value in printed.items()})
    by_row = visir.explain(evaluation, row, decimals=1)
    readings = (flat.best.reading, *flat.best.same)  # of five captions, five are as many as fit
    assert {reading["recall"] for reading in readings} >= {"recall", "capped_recall"} and flat.best.reproduced == 2
    assert flat.sentence == nested.sentence == by_row.sentence
    assert "too few" in flat.sentence and flat.verdict == "several"


def test_a_folder_is_explained(evaluation: visir.Evaluation, tmp_path: Path) -> None:
    folder = evaluation.save(tmp_path / "result")
    value = round(100 * evaluation["t2i R@1"], 2)
    assert visir.explain(folder, {"t2i R@1": value}).best.reproduced == 1
    assert visir.explain(str(folder), {"t2i R@1": value}).best.reproduced == 1


def test_labels_are_read_as_people_type_them(evaluation: visir.Evaluation) -> None:
    values = {"t2i MedR": evaluation["t2i MedR"], "t2i nDCG@10": round(100 * evaluation["t2i nDCG@10"], 1)}
    best = visir.explain(evaluation, values).best
    assert [judged.measure for judged in best.values] == ["median_rank", "ndcg@10"] and best.reproduced == 2


def test_decimals_are_those_of_the_values() -> None:
    assert published_row({"t2i R@1": 30.0}, ["t2i"])[1] == 0
    assert published_row({"t2i R@1": "30.40", "t2i R@5": 56.1}, ["t2i"])[1] == 2
    assert published_row({"R@1": 30.4}, ["t2i"])[0].values == {"t2i": {"R@1": 30.4}}
    assert published_row("brittleness-table-3", ["t2i"], system="CLIP", collection="Flickr30k")[0].system == "CLIP"


def test_values_are_recalls_in_percent() -> None:
    row, decimals, _ = published_row({"t2i R@1": "30.4%", "t2i R@5": " 56.1 % ", "t2i rsum": 171}, ["t2i"])
    assert row.values == {"t2i": {"R@1": 30.4, "R@5": 56.1, "rsum": 171.0}} and decimals == 1
    with refused(ConfigurationError, "4", "faults") as fault:
        published_row({"t2i R@1": 304, "t2i R@5": "-1", "t2i R@10": True, "t2i mrr": "9" * 5000}, ["t2i"])
    assert "R@1: 304 is not between 0 and 100" in fault.value.message and "R@5: '-1' is not" in fault.value.message
    assert "R@10: True is no number" in fault.value.message and len(fault.value.message) < 300


def test_a_source_is_the_collection_of_the_result(evaluation: visir.Evaluation) -> None:
    vectors = random_pair(COLLECTION, noise=1.5)
    printed = {"t2i R@1": "12.3"}
    for other in (make_collection(39, 5), make_collection(40, 4)):
        with refused(VisirError, "200", code="captions-result-not-another"):
            visir.explain(evaluation, printed, source=other, vectors=vectors)
    with refused(ConfigurationError, "list", code="collection-needed-not"):
        visir.explain(evaluation, printed, source=["data.csv"], vectors=vectors)


def test_vectors_in_every_form_and_none(evaluation: visir.Evaluation) -> None:
    images, texts = random_pair(COLLECTION, noise=1.5)
    printed = {f"t2i R@{k}": f"{100 * evaluation[f't2i R@{k}']:.2f}" for k in (1, 5, 10)}
    of_ids = {side: (part.ids.to_pylist(), part.vectors) for side, part in (("image", images), ("text", texts))}
    for vectors in ((images, texts), (texts, images), [images, texts], of_ids, {"image": images, "text": texts}):
        assert visir.explain(evaluation, printed, vectors=vectors).best.reproduced == 3
    for vectors in ("npz:vectors.npz", (images, images), images, {"image": images}, (images.vectors, texts.vectors)):
        with refused(ConfigurationError, code="images-captions-needed"):
            visir.explain(evaluation, printed, vectors=vectors)
    shorter = (of_ids["text"][0], texts.vectors[:, :-1])
    with pytest.raises(VisirError, match="the vectors differ in their dimensions: those of images have"):
        visir.explain(evaluation, printed, vectors={"image": images, "text": shorter})


def test_misuse(evaluation: visir.Evaluation) -> None:
    with refused(ConfigurationError, "2", "faults") as fault:
        visir.explain(evaluation, {"R@1": 30.4, "t2i R@5": "much"})
    assert "'R@1': of which task? Write 'i2t R@1' or 't2i R@1'" in fault.value.message
    assert "visir.explain(result," in fault.value.hint
    with refused(ConfigurationError, "dict", code="cannot-explain"):
        visir.explain({}, {"t2i R@1": 1.0})
    with refused(VisirError, code="runs-not-hand-reading"):
        visir.explain(visir.Evaluation(evaluation.result), {"t2i R@1": 1.0})


NEVER_AT_CHANCE = ({"R@1": "0.588", "R@5": "0.834", "R@10": "0.902"}, {"R@1": "0.588"}, {"R@1": ".59", "R@5": ".83"},
                   {"R@1": 0.588, "R@5": 0.834, "R@10": 0.902, "rsum": 2.324})  # fmt: skip
"""Values of another model, printed as fractions of 1."""


@pytest.fixture(scope="module")
def large() -> visir.Evaluation:
    """400 images: in percent, .588 and .902 are what random rankings give."""
    collection = make_collection(400, 5)
    return visir.evaluate(collection, random_pair(collection, noise=1.0), depth=50)


@pytest.mark.parametrize("values", NEVER_AT_CHANCE)
def test_fractions_are_not_called_chance(values: dict[str, str], large: visir.Evaluation) -> None:
    explanation = visir.explain(large, {"t2i": values})
    assert explanation.verdict == "none" and "are at chance" not in explanation.sentence
    assert "are taken as fractions of 1" in explanation.sentence
    assert str(explanation.best.reading) == "printed as fractions of 1, not in percent"


def test_fractions_below_chance_in_percent_are_fractions() -> None:
    collection = make_collection(40, 5)
    evaluation = visir.evaluate(collection, random_pair(collection, noise=2.0))
    explanation = visir.explain(evaluation, {"t2i": {"R@1": "0.111", "R@5": "0.222", "R@10": "0.333"}})
    assert "below chance" not in explanation.sentence and "fractions of 1" in explanation.sentence


def test_fractions_of_the_result_are_named_with_their_sum(large: visir.Evaluation) -> None:
    values = {f"R@{k}": f"{large[f't2i R@{k}']:.3f}" for k in (1, 5, 10)}
    values["rsum"] = f"{sum(map(float, values.values())):.3f}"
    explanation = visir.explain(large, {"t2i": values})
    assert explanation.verdict == "named" and explanation.best.reading["unit"] == "fraction"


def test_values_at_chance_are_still_called_so(large: visir.Evaluation) -> None:
    for values in ({"R@1": "0.2", "R@5": "1.2", "R@10": "2.5"}, {"R@1": "0.59%"}):
        explanation = visir.explain(large, {"t2i": values})
        assert explanation.verdict == "chance" and "are at chance, no better" in explanation.sentence
    unsure = visir.explain(large, {"t2i": {"R@1": "0.05", "R@5": "0.95"}})  # as fractions far from ours, too
    assert unsure.verdict == "chance" and "if they are percentages (as fractions of 1 no reading" in unsure.sentence


def test_values_as_people_write_them(evaluation: visir.Evaluation) -> None:
    row, decimals, _ = published_row({"R@1": "58,8", "R@5": "83.4%", "R@10": "90,25 %"}, ["t2i"])
    assert row.values == {"t2i": {"R@1": 58.8, "R@5": 83.4, "R@10": 90.25}} and decimals == 2 and row.in_percent
    assert not published_row({"R@1": 0.588}, ["t2i"])[0].in_percent
    with pytest.raises(ConfigurationError) as fault:
        published_row({"R@1": "0.588 ± .01", "R@5": "1,234", "R@10": 902}, ["t2i"])
    assert "'0.588 ± .01' is no number: a mean of several runs" in fault.value.message
    assert "'1,234' is no number" in fault.value.message and "divide a count by the queries" in fault.value.message


def test_the_doubt_of_a_printed_value_is_said_of_perturbed_results_too(tmp_path: Path) -> None:
    perturbed = visir.evaluate(
        COLLECTION, random_pair(COLLECTION, noise=1.5), tasks="t2i", conditions={"perturbation": "synonym_adj"}
    )
    rows = [{"system": "theirs", "t2i": {"synonym_adj": 150.0, "shuffle_all_words": 90.0}}]
    doubts = [{"label": "synonym_adj", "reason": "Printed twice."}, {"label": "shuffle_all_words", "reason": "Other."}]
    write_json(tmp_path / "paper.json", {"title": "T", "source": "S", "rows": rows, "doubtful": doubts})
    explanation = visir.explain(perturbed, tmp_path / "paper.json")
    assert explanation.remarks == ("doubtful in print, text → image synonym_adj: Printed twice.",)


def test_the_mean_rank_of_a_cut_run_is_not_known() -> None:
    collection = make_collection(40, 1)
    images, captions = collection.images["id"].to_pylist(), collection.captions["id"].to_pylist()
    run = {
        query: {
            images[i] if i < 6 and place == 4 else images[(i + place + 1) % 40]: 1 - place / 16 for place in range(10)
        }
        for i, query in enumerate(captions)
    }
    evaluation = visir.evaluate(collection, {"t2i": run}, measures=["mean_rank", "median_rank", "R@1", "R@10"])
    assert evaluation.result.last_rank("t2i", "mean_rank") == 10
    printed = {"t2i mean_rank": "9.1", "t2i MedR": "11", "t2i R@10": "15.0"}
    explanation = visir.explain(evaluation, printed)
    assert all(fit.reading.departures for fit in explanation.fits)  # the ranks of the run as it is are not known
    whole = visir.evaluate(collection, random_pair(collection, noise=1.5), tasks="t2i")
    (remark,) = visir.explain(whole, printed).remarks
    assert "mean rank of t2i (9.1) is below the median (11): the mark of a run that was cut at about 10" in remark


def test_a_printed_nought_is_a_value(large: visir.Evaluation) -> None:
    """Any other value would be infinitely far from it, and so would every reading."""
    explanation = visir.explain(large, {"t2i R@1": 0.0, "t2i R@5": 99.9})
    assert all(fit.distance < 1_000 for fit in explanation.fits) and "inf" not in explanation.sentence
