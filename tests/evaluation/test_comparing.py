"""Comparison: one protocol, paired by query, corrected; and the refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from evaluation_toys import make_collection, random_pair

from refusals import refused
from visir.errors import ConfigurationError, ProtocolError, VisirError
from visir.evaluation.compare import check_comparable, compare, notes_of, paired_difference
from visir.evaluation.evaluate import evaluate
from visir.records import Collection, Result
from visir.reports import comparison_table, to_markdown
from visir.stats import adjust

COLLECTION = make_collection(60, 5)


@pytest.fixture(scope="module")
def good() -> Result:
    return evaluate(COLLECTION, random_pair(COLLECTION, seed=1, noise=0.8, name="good")).result


@pytest.fixture(scope="module")
def poor() -> Result:
    return evaluate(COLLECTION, random_pair(COLLECTION, seed=2, noise=3, name="poor")).result


@pytest.mark.parametrize("test", ["t", "randomisation"])
def test_identical_systems_differ_by_nothing(good: Result, test: str) -> None:
    comparison = compare([good, good], test=test)  # type: ignore[arg-type]
    assert comparison.systems == ("good (1)", "good (2)")
    for one in comparison.differences:
        assert (one.difference, one.p, one.p_corrected, one.untested) == (0, 1, 1, "")
        if one.measure.startswith("hit@"):  # hits: other queries could have told the two apart
            assert one.low < 0 < one.high
        else:
            assert np.isnan([one.low, one.high]).all(), "what never varies has no interval"
        assert not one.better


def test_p_values_are_those_of_scipy(good: Result, poor: Result) -> None:
    comparison = compare([poor, good], correction="none", unit="caption")
    for one in comparison.differences:
        if one.measure == "rsum":
            continue
        both = [result.values(one.task, one.measure) for result in (good, poor)]
        of_ranks = one.measure == "mean_rank"
        theirs = scipy.stats.ttest_rel(*(np.log(both) if of_ranks else both))
        assert one.p == pytest.approx(theirs.pvalue, rel=1e-6)
        assert one.difference == pytest.approx(good.mean(one.task, one.measure) - one.baseline_value)
        assert of_ranks or one.low <= one.difference <= one.high
        assert one.better
    assert {one.measure for one in comparison.differences} == {"hit@1", "hit@5", "hit@10", "rsum", "mrr", "mean_rank"}


def test_rsum_has_a_test_of_its_own(good: Result, poor: Result) -> None:
    """A query's share of rsum is the sum of its three hits, in points: their mean difference is that of rsum."""
    (one,) = [d for d in compare([poor, good], measures=["rsum"], unit="caption").differences if d.task == "t2i"]
    per_query = [100 * sum(r.values("t2i", f"hit@{k}") for k in (1, 5, 10)) for r in (good, poor)]
    assert one.p == pytest.approx(scipy.stats.ttest_rel(*per_query).pvalue, rel=1e-6)
    assert one.difference == pytest.approx(np.mean(per_query[0] - per_query[1]))


def test_the_family_is_all_that_is_compared(good: Result, poor: Result) -> None:
    comparison = compare(
        [poor, good, replace(good, system="again")], measures=["hit@1", "mrr"], correction="bonferroni"
    )
    assert comparison.family == len(comparison.differences) == 2 * 2 * 2
    for one in comparison.differences:
        assert one.p_corrected == pytest.approx(min(1, 8 * one.p))
    assert {one.system for one in comparison.differences} == {"good", "again"}


def test_queries_are_paired_by_id_not_by_row(good: Result, poor: Result) -> None:
    shuffled = np.random.default_rng(0).permutation(300)
    other = replace(poor, per_query=poor.per_query | {"t2i": poor.per_query["t2i"].take(pa.array(shuffled))})
    assert compare([good, other]).differences == compare([good, poor]).differences


def test_clusters_by_image_raise_p(good: Result) -> None:
    """Five copies of one ranking per image: as five independent queries they look more certain than they are."""
    copied = {}
    for name, seed in (("a", 1), ("b", 2)):
        rng = np.random.default_rng(seed)
        hits = np.repeat(rng.random(60) < 0.5 + 0.2 * (name == "a"), 5).astype(float)
        table = pa.table({"query_id": good.per_query["t2i"]["query_id"], "hit@1": hits})
        aggregates = {"t2i": {"hit@1": float(hits.mean())}}
        copied[name] = replace(good, system=name, per_query={"t2i": table}, aggregates=aggregates)
    pair = [copied["b"], copied["a"]]
    apart = compare(pair, measures=["hit@1"], unit="caption")
    together = compare(pair, measures=["hit@1"])
    assert together.differences[0].p > 3 * apart.differences[0].p
    assert together.differences == compare(pair, measures=["hit@1"], unit="image").differences
    assert "over images, captions of one image together" in together.how
    assert together.notes == ()
    assert "over queries" in apart.how
    assert "taken for independent, as asked for" in apart.notes[0]


def test_unknown_images_are_said_to_be(good: Result, poor: Result) -> None:
    bare = [replace(one, captions=None) for one in (poor, good)]
    assert "because the results do not say which image" in compare(bare).notes[0]
    with refused(ConfigurationError, "300", "300", code="captions-image-not-known"):
        compare(bare, unit="image")
    with refused(ConfigurationError, "images", code="unknown-unit", meant="image", hint=False):
        compare(bare, unit="images")  # type: ignore[arg-type]
    # one result that knows is enough: both answered the same captions
    assert compare([bare[0], good]).differences == compare([poor, good]).differences


def test_an_image_is_not_taken_for_a_caption_of_its_name() -> None:
    """Images and captions are both called 0, 1, …: what is asked in i2t are images, each a sample for itself."""
    collection = make_collection(20, 2)
    numbers = {one: str(at) for at, one in enumerate(collection.images["id"].to_pylist())}
    ids = [str(at) for at in range(40)]
    captions = {"id": ids, "text": ["words"] * 40, "image_id": [str(at // 2) for at in range(40)]}
    collection = Collection.build("numbers", images={"id": list(numbers.values())}, captions=captions)
    results = [evaluate(collection, random_pair(collection, seed=seed, noise=3)).result for seed in (1, 2)]
    for one in compare(results, correction="none", measures=["mrr"]).differences:
        if one.task == "i2t":
            theirs = scipy.stats.ttest_rel(*(r.values("i2t", "mrr") for r in reversed(results)))
            assert one.p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_of_mean_ranks_the_logarithm_is_tested() -> None:
    """Of two systems with the ranks 2, 2, … and 4, 4, … but one lost query the t-test of ranks is undecided."""
    worse, better = np.tile([4.0, 8.0, 16.0], 20), np.tile([2.0, 5.0, 7.0], 20)
    found = paired_difference("t2i", "mean_rank", ("b", "a"), better, worse)
    assert found.p == pytest.approx(scipy.stats.ttest_rel(np.log(better), np.log(worse)).pvalue)
    assert np.isnan([found.low, found.high]).all() and found.better and found.difference < 0
    lost = np.r_[better, 5_000.0], np.r_[worse, 1.0]  # the mean says worse, the logarithm better
    found = paired_difference("t2i", "mean_rank", ("b", "a"), *lost)
    assert np.isnan(found.p) and "point in opposite directions" in found.untested
    (note, reason) = notes_of([found], {"t2i": 61}, "t")
    assert note.startswith("mean_rank: p is that of the logarithms of ranks")
    assert reason.endswith("opposite directions: text → image mean_rank of b")


def test_few_units_are_said_to_be(good: Result, poor: Result) -> None:
    few = [replace(one, per_query={"i2t": one.per_query["i2t"][:7]}) for one in (poor, good)]
    few = [replace(one, aggregates={"i2t": one.aggregates["i2t"]}) for one in few]
    comparison = compare(few, measures=["mrr"], correction="none")
    why = (
        "below 10 units (i2t has 7) signs are flipped, in every possible way, because a t-test rests on differences "
        "that are about normal, and so few cannot show that they are"
    )
    assert comparison.notes == (why,)
    assert comparison.how == (
        "two-sided exact test of sign flips over queries; 95 % intervals: Agresti and Min of hits; of other measures "
        "that of sign flips"
    )
    assert (comparison.differences[0].p * 2**7) % 2 == 0
    assert compare(few, measures=["mrr"], test="randomisation").notes == ()
    fewer = [replace(one, per_query={"i2t": one.per_query["i2t"][:5]}) for one in few]
    comparison = compare(fewer, measures=["mrr"], correction="none", test="wilcoxon")
    assert comparison.how == (
        "two-sided Wilcoxon signed-rank test over queries; 95 % intervals: Agresti and Min of hits; of other measures t"
    )
    assert comparison.notes == (
        "below 6 units (i2t) no p can be below 0.05, and intervals of t rest on differences that are about normal",
    )
    both = [replace(one, per_query=one.per_query | {"i2t": one.per_query["i2t"][:8]}) for one in (poor, good)]
    assert compare(both, measures=["mrr"]).how == (
        "two-sided exact test of sign flips (i2t), paired t-test (t2i) over images, captions of one image together; "
        "95 % intervals: Agresti and Min of hits; of other measures that of sign flips (i2t), t (t2i)"
    )


@pytest.mark.parametrize("test", ["t", "randomisation", "wilcoxon"])
@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh", "none"])
def test_every_test_and_correction(good: Result, poor: Result, test: str, correction: str) -> None:
    comparison = compare([poor, good], measures=["mrr", "hit@1"], test=test, correction=correction)  # type: ignore[arg-type]
    raw = [one.p for one in comparison.differences]
    assert [one.p_corrected for one in comparison.differences] == pytest.approx(adjust(raw, correction).tolist())  # type: ignore[arg-type]
    assert {"t": "t-test", "randomisation": "randomisation", "wilcoxon": "Wilcoxon"}[test] in comparison.how


def test_what_cannot_be_tested_is_said_and_left_out(good: Result, poor: Result) -> None:
    """One task has a single query: no p, no interval, and one fewer in the family."""
    pair = [replace(one, per_query=one.per_query | {"i2t": one.per_query["i2t"][:1]}) for one in (poor, good)]
    comparison = compare(pair, measures=["mrr", "hit@1"], correction="bonferroni")
    assert comparison.family == 2
    for one in comparison.differences:
        if one.task == "i2t":
            assert one.untested == "there is only one query"
            assert np.isnan([one.p, one.p_corrected, one.low, one.high]).all()
        else:
            assert one.p_corrected == pytest.approx(min(1, 2 * one.p))
    assert comparison.notes == (
        "not testable, because there is only one query: image → text mrr of good, image → text R@1 of good",
    )
    printed = to_markdown(comparison_table(comparison))
    (row,) = [line for line in printed.splitlines() if "image → text mrr" in line and "testable" not in line]
    assert row.count("–") == 3


def test_the_seed_is_that_of_the_signs(good: Result) -> None:
    """Of 60 images not all signs are tried; another seed tries others."""
    near = evaluate(COLLECTION, random_pair(COLLECTION, seed=3, noise=0.9, name="near")).result
    first, again, other = (
        [each.p for each in compare(good, near, measures=["mrr"], test="randomisation", seed=seed).differences]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_unlike_protocols_are_refused_with_the_list(good: Result) -> None:
    system = random_pair(COLLECTION, seed=1, noise=0.8, name="other")
    other = evaluate(COLLECTION, system, captions="first", recall="capped_recall").result
    with pytest.raises(ProtocolError) as fault:
        compare([good, other])
    text = str(fault.value)
    assert "good and other were measured under different protocols and cannot be compared (4 faults)" in text
    assert "  - recall: 'hit' | 'capped_recall'" in text
    assert "  - captions: 'all' | 'first'" in text
    assert "  - galleries: {i2t: 300 captions" in text
    assert "--allow galleries --allow queries --allow captions --allow recall" in text
    with refused(ConfigurationError, "unknown protocol field", "recal", meant="recall", hint=False):
        compare([good, other], allow=["recal"])


def test_a_difference_can_be_allowed_by_name(good: Result) -> None:
    runs = evaluate(COLLECTION, random_pair(COLLECTION, seed=1, noise=0.8), depth=10).runs
    shallow = evaluate(COLLECTION, runs).result
    with refused(ProtocolError, "depth", "None | 10"):
        compare([good, shallow])
    comparison = compare([good, shallow], measures=["hit@10"], allow=["depth"])
    assert comparison.allowed == {"depth": (None, 10)}
    assert all(one.difference == 0 for one in comparison.differences)


def test_other_preprocessing_is_shown_but_no_reason_to_refuse(good: Result, poor: Result) -> None:
    other = replace(poor, protocol=poor.protocol.changed(image_preprocessing="resize 336"))
    assert compare([good, other]).system_differences == {"image_preprocessing": ("", "resize 336")}


def test_a_direction_that_only_one_measured_is_no_difference(good: Result, poor: Result) -> None:
    one_way = evaluate(COLLECTION, random_pair(COLLECTION, seed=2, noise=3, name="poor"), tasks=["t2i"]).result
    comparison = compare([good, one_way])
    assert {one.task for one in comparison.differences} == {"t2i"}
    both_ways = compare([good, poor]).differences
    assert [one.p for one in comparison.differences] == [one.p for one in both_ways if one.task == "t2i"]
    assert comparison.family == 6
    other_way = evaluate(COLLECTION, random_pair(COLLECTION), tasks=["i2t"]).result
    with refused(ProtocolError, code="results-no-task-common", hint=False):
        compare([one_way, other_way])


def test_other_queries_are_refused(good: Result) -> None:
    fewer = replace(good, system="fewer", per_query=good.per_query | {"i2t": good.per_query["i2t"].slice(2)})
    with pytest.raises(ProtocolError) as fault:
        compare([good, fewer])
    assert (
        "i2t: good and fewer answered different queries: 2 of good are missing from the other, e.g. 'i0', 'i1'"
        in str(fault.value)
    )


def test_measures_are_checked(good: Result) -> None:
    with refused(VisirError, code="comparison-needs-least-two"):
        compare([good])
    with pytest.raises(ConfigurationError) as fault:
        compare([good, good], measures=["hits@1", "median_rank"])
    assert "'hits@1' is not in all results (did you mean 'hit@1'?" in str(fault.value)
    assert "the difference of two medians has no paired test" in str(fault.value)


def test_like_protocols_differ_in_nothing(good: Result, poor: Result) -> None:
    assert check_comparable([good, poor]) == {}
