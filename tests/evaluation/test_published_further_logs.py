"""Thesis Table 5.3 beside logs that visir's data does not have: the means of the authors' public logs, as constants.

They are of `results/{f30k,f30k_aug}/MODEL/t2i/*-results.pkl` in the repositories mariyahendriksen/evaluating-cmr-in-vl
(commit 87e131e4) and model-robustness-for-itr.
"""

from __future__ import annotations

import pytest

from visir.evaluation.published import load

SHUFFLES = (
    "shuffle_nouns_and_adj",
    "shuffle_all_words",
    "shuffle_allbut_nouns_and_adj",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
)
# (collection, model) → rsum of the unperturbed log; rsum + mean DCG of the shuffled ones
LOGS = {
    ("Flickr30k", "ALIGN"): (161.98, (139.335, 120.394, 133.672, 144.653, 145.063)),
    ("Flickr30k", "GroupViT"): (53.64, (46.819, 47.826, 51.817, 51.717, 52.860)),
    ("Flickr30k-FG", "ALIGN"): (178.00, (154.820, 132.392, 159.441, 160.869, 163.599)),
    ("Flickr30k-FG", "AltCLIP"): (168.72, (145.400, 130.773, 154.190, 154.156, 156.827)),
    ("Flickr30k-FG", "GroupViT"): (58.44, (49.875, 46.882, 54.316, 54.358, 53.524)),
}
EXCHANGED = {"ALIGN": "AltCLIP", "AltCLIP": "ALIGN"}


def printed(collection: str, model: str) -> dict[str, float]:
    return dict(load("thesis-table-5-3").row(model, collection).values["t2i"])


def test_the_logs_decide_which_values_of_table_5_3_stand_under_the_wrong_model() -> None:
    for (collection, model), (rsum, shuffled) in LOGS.items():
        named = EXCHANGED.get(model, model) if collection == "Flickr30k-FG" else model
        assert printed(collection, named)["rsum"] == rsum
        table = load("thesis-table-5-3")
        for name, value in zip(SHUFFLES, shuffled, strict=True):
            low = 6.0 if (named, collection) == ("GroupViT", "Flickr30k-FG") and name in SHUFFLES[2::2] else 0.0
            assert printed(collection, named)[name] == pytest.approx(value - low, abs=0.0205)
            doubt = table.doubt(table.row(named, collection), "t2i", name)
            assert bool(doubt) == (named != model or low > 0), (collection, named, name)
            assert ("6.00" in doubt) == (low > 0)


def test_as_printed_half_of_the_further_values_have_the_dcg_in_them() -> None:
    as_printed = [
        abs(printed(collection, model)[name] - value) < 0.0205
        for (collection, model), (_, shuffled) in LOGS.items()
        for name, value in zip(SHUFFLES, shuffled, strict=True)
        if (collection, model, name) != ("Flickr30k", "ALIGN", SHUFFLES[0])  # visir's data has this log
    ]
    assert (sum(as_printed), len(as_printed)) == (12, 24)


def test_two_means_of_table_4_contain_the_two_low_values() -> None:
    table, collection = load("brittleness-table-4"), "Flickr30k-FG"
    row = table.row(None, collection)
    for name, means in (("shuffle_allbut_nouns_and_adj", (14.47, 11.90)), ("shuffle_trigrams", (13.04, 10.47))):
        for low, mean in zip((0.0, 6.0), means, strict=True):
            models = {model: printed(collection, model) for model in ("ALIGN", "AltCLIP", "CLIP", "GroupViT")}
            models["GroupViT"][name] += low
            losses = [100 * (1 - values[name] / values["rsum"]) for values in models.values()]
            assert sum(losses) / 4 == pytest.approx(mean, abs=0.006)
        assert row.values["t2i"][name] == means[0]
        assert f"{means[1]:.2f}" in table.doubt(row, "t2i", name)


def test_baselines_of_table_7_1_read_as_percent_or_as_fractions() -> None:
    """One right answer is .018 %, printed .01 if digits are cut; as fractions, a fifth of the specific ones."""
    table, everything = load("thesis-table-7-1"), "All categories (5,471)"
    for system in ("BM25", "CLIP", "MPNet"):
        row = table.row(system, everything)
        assert 0 <= 100 / 5471 - row.values["category"]["precision@1"] < 0.01
        assert all(table.doubt(row, "category", label) for label in row.values["category"])
    for system in ("CLIP", "MPNet"):
        part, specific = (
            table.row(system, collection).values["category"]["precision@5"]
            for collection in (everything, "Most specific category (4,100)")
        )
        assert 4.5 < specific / (100 * part) < 5.2
