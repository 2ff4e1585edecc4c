"""The study of brittleness on toys whose every answer is known, through all three kinds of subjects."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from stress_toys import Reader, coloured
from visir.encoders import Store
from visir.errors import ConfigurationError, RunError, VisirError
from visir.evaluation import evaluate
from visir.evaluation.by_label import by_label
from visir.evaluation.stress.answers import CommandSystem, RunFolder
from visir.evaluation.stress.effect import rsum_changes
from visir.evaluation.stress.stress import Stress, merged, stress, with_correction
from visir.records import Collection, Gallery, Qrels, Run
from visir.retrieval.exact import SearchResult
from visir.retrieval.formats import write_run
from visir.retrieval.ranks import ranks_of
from visir.robustness.perturb import perturb
from visir.stats import adjust
from visir.stats.differences import paired_t

TYPOS = ["char_swap", "missing_char", "distraction_true", "shuffle_all_words"]


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    (tmp_path / "pictures").mkdir()
    return coloured(tmp_path / "pictures")


def study(collection: Collection, tmp_path: Path, **options: object) -> Stress:
    given = {"perturbations": TYPOS, "corruptions": [], "store": Store(tmp_path / "store"), **options}
    return stress(collection, Reader(), **given)  # type: ignore[arg-type]


def test_results_have_the_labels_of_their_queries(collection: Collection, tmp_path: Path) -> None:
    languages = pa.array(["en", "de"] * collection.images.num_rows)
    labelled = replace(collection, captions=collection.captions.append_column("language", languages))
    outcome = study(labelled, tmp_path, perturbations=["char_swap"]).effect("char_swap").outcome
    rows = by_label(outcome.result, "language", ["hit@1"]).rows
    assert [(row.label, row.queries) for row in rows] == [("en", 24), ("de", 24)]


def test_each_value_of_a_label_has_its_own_change(collection: Collection, tmp_path: Path) -> None:
    """In English stand the captions that say a mixture; in German those that say "red", which is no use before either.

    Whatever the perturbation, the numbers of a language are those of a study of its captions alone over all pictures,
    and those of one language for all are those of the study.
    """
    count = collection.images.num_rows
    languages = pa.array([value for _ in range(count) for value in ("en", None)])
    labelled = replace(collection, captions=collection.captions.append_column("language", languages))
    found = study(labelled, tmp_path)
    by = found.by("language")
    assert [(row.perturbation, row.value) for row in by.rows] == [
        (name, value) for name in TYPOS for value in ("en", "(none)")
    ]
    for effect in found.effects:
        is_english = np.array([query.endswith("#0") for query in effect.queries.to_pylist()])
        for value, chosen in (("en", is_english), ("(none)", ~is_english)):
            row = by[effect.name, value]
            before, after = effect.before[chosen].mean(), effect.after[chosen].mean()
            assert (row.change.before, row.change.after, row.change.queries) == (before, after, count)
            assert row.coverage == effect.outcome.changed[chosen].mean()
            assert row.change.percent == pytest.approx(100 * (after - before) / before)
    swapped = by["char_swap", "en"]
    low, high = swapped.change.percent_interval
    assert low <= swapped.change.percent <= high and low < 0
    alone = pa.array(["en"] * (2 * count))
    whole = study(replace(collection, captions=collection.captions.append_column("language", alone)), tmp_path)
    for row, effect in zip(whole.by("language").rows, whole.effects, strict=True):
        np.testing.assert_equal(row.change, effect.overall)
    assert by.to_pandas()["percent"].tolist() == pytest.approx([row.change.percent for row in by.rows])
    assert "by language" in by.to_markdown()
    with pytest.raises(VisirError, match="there is no label 'langauge'"):
        found.by("langauge")
    with pytest.raises(VisirError, match="no query has labels"):
        study(collection, tmp_path, perturbations=["char_swap"]).by("language")


def test_every_number_is_that_of_an_evaluation(collection: Collection, tmp_path: Path) -> None:
    """The slow way as the referee: the whole perturbed collection evaluated by itself."""
    found = stress(collection, _never_zero(), perturbations=TYPOS, corruptions=[], store=Store(tmp_path / "store"))
    store = Store(tmp_path / "another")
    plain = evaluate(collection, _never_zero(), tasks=["t2i"], store=store).result
    assert found.plain.mean("t2i", "rsum") == pytest.approx(plain.mean("t2i", "rsum"))
    for effect in found.effects:
        view = perturb(collection, effect.name)
        slow = evaluate(view, _never_zero(), tasks=["t2i"], store=store).result
        assert effect.overall.after == pytest.approx(slow.mean("t2i", "rsum"))
        assert effect.overall.before == pytest.approx(plain.mean("t2i", "rsum"))
        gaps = effect.after - effect.before
        assert effect.p == paired_t(gaps, [one.split("#")[0] for one in effect.queries.to_pylist()]).p
        assert effect.overall.points == pytest.approx(gaps.mean())
    assert [one.p_corrected for one in found.effects] == pytest.approx(
        adjust([one.p for one in found.effects]).tolist()
    )


def _never_zero() -> Reader:
    """A caption that names no colour then has a task that no picture is near to, instead of none."""

    class Sure(Reader):
        def _read(self, text: str) -> list[float]:
            vector = super()._read(text)
            return vector if any(vector) else [-1.0, -1.0, -1.0, 0.0]

    return Sure("sure")


def test_only_what_changed_is_encoded_anew(collection: Collection, tmp_path: Path) -> None:
    """ "red" alone is one word: it cannot be shuffled. So half of the captions are asked again, the others counted."""
    reader = Reader()
    found = stress(
        collection, reader, perturbations=["shuffle_all_words"], corruptions=[], store=Store(tmp_path / "store")
    )
    effect = found.effect("shuffle_all_words")
    assert effect.coverage == 0.5 and len(reader.texts) == 1 + 24 + 24  # equal captions are encoded once
    assert effect.on_changed is not None and effect.on_changed.queries == 24
    # Word order means nothing to it, so nothing changes; and no interval, no test says otherwise.
    assert effect.overall.points == 0 and effect.overall.percent_interval == (0.0, 0.0) and effect.p == 1.0
    again = Reader()
    stress(collection, again, perturbations=["shuffle_all_words"], corruptions=[], store=Store(tmp_path / "store"))
    assert again.texts == [] and again.pictures == 0  # everything was kept


def test_typos_hurt_those_they_touch(collection: Collection, tmp_path: Path) -> None:
    found = study(collection, tmp_path, severity=3)
    effect = found.effect("missing_char")
    assert effect.overall.percent < -10 and effect.p_corrected < 0.05
    low, high = effect.overall.percent_interval
    assert low < effect.overall.percent < high < 0
    assert effect.overall.percent_left == pytest.approx(100 * effect.overall.after / effect.overall.before)
    assert effect in found.under(90) and found.effect("shuffle_all_words") not in found.under(100)
    worst = effect.worst(5, (np.ones(48), np.ones(48)), [one.split("#")[0] for one in effect.queries.to_pylist()])
    lost = effect.before - effect.after
    assert lost[worst[0]] == lost.max() and len({effect.queries[at].as_py()[:3] for at in worst}) == len(worst)
    assert any("zero vector" in note for note in found.notes)  # "red" without its e is no word


def test_what_was_not_changed_is_not_resampled() -> None:
    """Of few changed queries among many, a draw from all images may hold none; a draw from their own images has all."""
    rng = np.random.default_rng(0)
    before = rng.choice([100.0, 200.0, 300.0], 40)
    after = np.where(rng.random(40) < 0.4, 0.0, before)
    (change,) = rsum_changes(before, [after], np.repeat(np.arange(20), 2), seed=0)
    assert (change.queries, change.images, change.is_too_few) == (40, 20, False)
    assert change.percent_interval[0] < change.percent < change.percent_interval[1] < 0
    assert change.interval_in_words.startswith("95 % interval -")


def test_fewer_than_ten_images_are_too_few_for_an_interval() -> None:
    before, after = np.full(18, 300.0), np.r_[np.zeros(9), np.full(9, 300.0)]
    (change,) = rsum_changes(before, [after], np.arange(18) // 2, seed=0)
    assert (change.images, change.percent) == (9, -50.0)
    assert np.isnan([*change.points_interval, *change.percent_interval]).all()
    assert change.interval_in_words == "too few images for an interval"
    (more,) = rsum_changes(before, [after], np.r_[np.arange(16) // 2, 8, 9], seed=0)
    assert more.images == 10 and not np.isnan(more.percent_interval).any()


def test_the_test_of_few_images_is_named_with_the_reason(collection: Collection, tmp_path: Path) -> None:
    seven, single = (
        study(collection.keep_images(np.arange(collection.images.num_rows) < count), tmp_path, perturbations=TYPOS[:2])
        for count in (7, 1)
    )
    assert seven.how == "two-sided exact test of sign flips over images, with all their captions"
    assert seven.notes[-1].startswith("below 10 units (t2i has 7) signs are flipped, in every possible way")
    assert [(effect.p * 2**7) % 2 for effect in seven.effects] == [0, 0]
    assert np.isnan([effect.p for effect in single.effects]).all()
    assert single.notes[-1] == "not testable, because there is only one image: t2i"


def test_pictures_are_queries_over_plain_captions(collection: Collection, tmp_path: Path) -> None:
    found = study(
        collection, tmp_path, perturbations=[], corruptions=["gaussian_blur", "occlusion"], picture_severity=5
    )
    assert [one.outcome.task for one in found.effects] == ["i2t", "i2t"] and found.jaccard is None
    assert found.effect("gaussian_blur").overall.points == 0  # of one colour: a blur changes no pixel
    assert found.effect("occlusion").overall.points < 0  # half of it is grey
    result = found.effect("occlusion").outcome.result
    assert result.protocol.perturbation == "pictures: occlusion, severity 5, seed 0"
    assert list(result.protocol.differences(found.protocol)) == ["perturbation"]


def test_the_gain_of_an_answer_is_that_of_what_was_meant(collection: Collection, tmp_path: Path) -> None:
    found = study(collection, tmp_path, perturbations=["missing_char"], severity=3, estimator=Reader("judge"))
    assert found.protocol.estimator == "judge"
    result = found.effect("missing_char").outcome.result
    assert 0 < result.mean("t2i", "dcg_cm@10") < found.plain.mean("t2i", "dcg_cm@10")


def runs_of(collection: Collection, folder: Path, names: list[str]) -> None:
    """What somebody else's search leaves behind: a TREC run for each perturbed collection."""
    folder.mkdir()
    for name in ["none", *names]:
        view = collection if name == "none" else perturb(collection, name)
        run = evaluate(view, _never_zero(), tasks=["t2i"], depth=10, store=Store(folder / ".store")).runs["t2i"]
        write_run(run, folder / f"{name}.trec")


def test_runs_give_what_the_encoder_gives(collection: Collection, tmp_path: Path) -> None:
    runs_of(collection, tmp_path / "runs", TYPOS)
    own = stress(collection, _never_zero(), perturbations=TYPOS, corruptions=[], store=Store(tmp_path / "store"))
    given = stress(collection, RunFolder(tmp_path / "runs"))
    assert given.system == "runs" and given.protocol.depth == 10
    for mine, theirs in zip(own.effects, given.effects, strict=True):
        assert mine.name == theirs.name and mine.overall == theirs.overall and mine.p == theirs.p
        assert mine.on_changed == theirs.on_changed
    assert given.jaccard is not None and own.jaccard is not None
    assert given.jaccard.mean("decreased") == own.jaccard.mean("decreased")


def test_faults_of_a_folder_of_runs(collection: Collection, tmp_path: Path) -> None:
    with refused(RunError, "no run", "none"):
        RunFolder(tmp_path)
    runs_of(collection, tmp_path / "runs", ["char_swap"])
    (tmp_path / "runs" / "char_swop.trec").write_text("")
    (tmp_path / "runs" / "none.trec").rename(tmp_path / "runs" / "plain.txt")
    with pytest.raises(RunError) as fault:
        RunFolder(tmp_path / "runs")
    for part in ("3 faults", "'char_swop' is no perturbation", "'plain'", "unperturbed run of t2i is missing"):
        assert part in str(fault.value)
    (tmp_path / "runs" / "char_swop.trec").unlink()
    (tmp_path / "runs" / "plain.txt").rename(tmp_path / "runs" / "none.txt")
    subject = RunFolder(tmp_path / "runs")
    with pytest.raises(ConfigurationError, match="has no answers to 'extra_char'; it has char_swap"):
        stress(collection, subject, perturbations=["extra_char"])


SEARCH = """
import sys
queries, run, folder = sys.argv[1:]
from pathlib import Path
Path(folder, "calls").open("a").write(queries + "\\n")
lines = Path(queries).read_text("utf-8").splitlines()
with open(run, "w") as out:
    for line in lines:
        name, text = line.split("\\t")
        # It knows the right image of a caption that it can read to the letter.
        ids = [f"{at:03d}" for at in range(24)]
        own = name.partition("#")[0]
        ids = [own, *(one for one in ids if one != own)] if text.endswith("paint") else ids
        for rank, one in enumerate(ids[:10], 1):
            out.write(f"{name} Q0 {one} {rank} {1 / rank} toy\\n")
"""


def test_a_command_is_asked_once(collection: Collection, tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    command = f"{sys.executable} {script} {{queries}} {{run}} {tmp_path}"
    names = ["distraction_true", "shuffle_within_trigrams"]
    found = stress(collection, CommandSystem(command, tmp_path / "kept", "toy"), perturbations=names)
    # With " and true is true" behind it no caption ends in "paint": only image 000 … 009 by the order of ids remain.
    assert found.effect("distraction_true").overall.percent < -60
    said = (tmp_path / "kept" / "distraction_true.tsv").read_text().splitlines()[0]
    assert said.startswith("000#0\t") and "true is true" in said
    assert len((tmp_path / "calls").read_text().splitlines()) == 3
    again = stress(collection, CommandSystem(command, tmp_path / "kept", "toy"), perturbations=names)
    assert len((tmp_path / "calls").read_text().splitlines()) == 3  # a killed study goes on; nothing is asked twice
    assert again.effect(names[0]).overall == found.effect(names[0]).overall
    stress(collection, CommandSystem(command, tmp_path / "kept", "toy"), perturbations=names, seed=1)
    assert len((tmp_path / "calls").read_text().splitlines()) == 4  # another shuffle; the distraction is the same


def test_faults_of_a_command(collection: Collection, tmp_path: Path) -> None:
    with refused(ConfigurationError, "{run}", code="command-not-say-where"):
        CommandSystem("search {queries}", tmp_path / "calls")
    broken = f"{sys.executable} -c 'import sys; sys.exit(\"no index {{\" )' {{queries}} {{run}}"
    with refused(RunError, "1", "no index", code="exit-status"):
        stress(collection, CommandSystem(broken, tmp_path / "calls"), perturbations=["char_swap"])
    with refused(RunError, code="left-no-run"):
        stress(collection, CommandSystem("true {queries} {run}", tmp_path / "calls"), perturbations=["char_swap"])
    with refused(ConfigurationError, "jpeg", hint=False):
        stress(collection, CommandSystem("true {queries} {run}", tmp_path / "calls"), corruptions=["jpeg"])


def test_all_faults_at_once(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(VisirError) as fault:
        study(collection, tmp_path, perturbations=["char_swop", "char_swap"], corruptions=["jpg"])
    assert "char_swop" in str(fault.value) and "'jpg'" in str(fault.value)
    with pytest.raises(ConfigurationError, match="nothing is perturbed"):
        study(collection, tmp_path, perturbations=[])
    with pytest.raises(ConfigurationError) as fault:
        study(collection, tmp_path, severity=0, seed=-1, profile="papre")
    assert all(part in str(fault.value) for part in ("severity 0", "seed -1", "'papre'"))
    np.savez(tmp_path / "v.npz", image=np.eye(24), image_ids=np.array(collection.images["id"].to_pylist()))
    from visir.encoders import load

    with refused(ConfigurationError, code="vectors-made-elsewhere-cannot"):
        stress(collection, load(f"npz:{tmp_path / 'v.npz'}"))


def test_several_studies_are_one_family(collection: Collection, tmp_path: Path) -> None:
    one, other = (study(collection, tmp_path, severity=severity) for severity in (1, 3))
    both = with_correction([one, other])
    values = [effect.p for found in (one, other) for effect in found.effects]
    adjusted = [effect.p_corrected for found in both for effect in found.effects]
    assert adjusted == pytest.approx(adjust(values).tolist()) and both[0].family == 2 * len(TYPOS)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 6))
def test_merging_is_choosing_query_by_query(seed: int, count: int, size: int) -> None:
    """Some queries are asked anew, some of those are not answered: each answer is looked up by itself."""
    rng = np.random.default_rng(seed)
    documents = [f"d{one}" for one in range(size)]
    gallery = Gallery.of("image", documents, "toy")
    queries = [f"q{one}" for one in range(count)]
    qrels = Qrels.of(queries, rng.choice(documents, count))

    def run(name: str, some: list[str]) -> Run:
        rows = [(one, doc, float(rng.normal())) for one in some for doc in rng.permutation(documents)[: 1 + size // 2]]
        return Run.ranked(name, "t2i", *zip(*rows, strict=True), gallery, depth=1 + size // 2)

    asked = [one for one in queries if rng.random() < 0.5] or queries[:1]
    answered = [one for one in asked if rng.random() < 0.8] or asked[:1]
    plain, anew = run("plain", queries), run("anew", answered)
    both = merged(SearchResult(plain, ranks_of(plain, qrels)), SearchResult(anew, ranks_of(anew, qrels.select(asked))))
    for one in queries:
        expected = [] if one in asked and one not in answered else (anew if one in asked else plain).answer(one)
        assert both.run.answer(one) == expected
    assert both.ranks is not None
    slow = ranks_of(replace(both.run, queries=pa.array(queries)), qrels)
    assert np.array_equal(both.ranks.ranks, slow.ranks) and both.ranks.queries.equals(slow.queries)
