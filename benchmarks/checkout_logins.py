"""Whether selection alone makes identified sessions easy: who is called identified, and what that gives away.

    python benchmarks/checkout_logins.py --out runs/checkout-logins [--sessions 40000] [--models lr gbdt] [--folds 3]

Generates logs of shops that differ in when customers log in, draws the identified sessions of each under both readings
(`visir sessions predict --setting-from start` and `session`), and prints F1 beside that of the constant classifier,
which calls every session a purchase. In the last column chances are brought back to the share that buys before they
are rounded at ½: what a model without class weights says. Last, the two readings of dwell times on anonymous sessions.
A study that was stopped goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from visir.sessions import generate, make, predict
from visir.sessions.examples import NoSessionError, Sample, draw
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.prediction.models import all_bought, at_share, fit, splits
from visir.sessions.prediction.models import f1 as f1_of
from visir.sessions.prediction.study import Summary
from visir.sessions.simulator import Shop

STEPS = (0, 1, 5, 10)
FEW_ABANDON = tuple(replace(intent, abandon=0.3 * intent.abandon) for intent in Shop().intents)
SHOPS = {
    "customers are recognised, or log in early": Shop(),
    "half of them log in at the checkout": Shop(logs_in_at_checkout=0.5),
    "all log in at the checkout": Shop(logs_in=0.0, logs_in_at_checkout=1.0),
    "the same, and few leave the checkout": Shop(logs_in=0.0, logs_in_at_checkout=1.0, intents=FEW_ABANDON),
}
READINGS = {
    "first request": {"setting_from": "start", "counted_pages": "before order"},
    "whole session": {"setting_from": "session", "counted_pages": "all"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sessions", type=int, default=40_000)
    parser.add_argument("--most", type=int, default=1_500, help="sessions that are predicted, at most")
    parser.add_argument("--models", nargs="+", default=["lr", "gbdt"])
    parser.add_argument("--folds", type=int, default=3)
    options = parser.parse_args()
    study = {"n": options.most, "models": options.models, "folds": options.folds, "schemes": ["grouped"], "jobs": 1}
    print(f"| shop | identified by | sessions, that buy | all bought | {head()} | without weights, step 0, 10 |")
    print("|---" * (5 + len(STEPS)) + "|")
    folders = {}
    for number, (name, shop) in enumerate(SHOPS.items()):
        raw, folders[name] = options.out / f"log-{number}", options.out / f"sessions-{number}"
        if not folders[name].is_dir():
            generate(raw, options.sessions, shop=shop, replace=True)
            make(raw / "events", folders[name], mapping=raw / "mapping.toml")
        for reading, settings in READINGS.items():
            out = options.out / f"study-{number}-{settings['setting_from']}"
            try:
                summary = predict(folders[name], out, settings=["identified"], **study, **settings)
            except NoSessionError:
                print(f"| {name} | {reading} | none | – |" + " – |" * (len(STEPS) + 1))
                continue
            drawn = summary.card["drawn"]["identified"]
            share = drawn["purchases"] / drawn["sessions"]
            cells = " | ".join(f1(summary, step) for step in STEPS)
            counts = f"{drawn['sessions']:,}, {100 * share:.1f} %"
            sample = Sample("identified", options.most, **settings)
            plain = ", ".join(
                f"{100 * without_weights(folders[name], sample, step, options.folds):.1f}" for step in (0, 10)
            )
            constant = f"{100 * all_bought(share)['f1']:.1f}"
            print(f"| {name} | {reading} | {counts} | {constant} | {cells} | lr {plain} |", flush=True)
    print(f"\nanonymous, ROC-AUC, baseline → extended\n\n| dwell times of | {head()} |")
    print("|---" * (1 + len(STEPS)) + "|")
    sessions = folders["customers are recognised, or log in early"]
    for reading in ("left pages", "current page"):
        out = options.out / f"dwell-{reading.split()[0]}"
        summary = predict(sessions, out, settings=["anonymous"], dwell_times=reading, **study)
        print(f"| {reading} | " + " | ".join(sets(summary, step, "roc_auc") for step in STEPS) + " |", flush=True)


def without_weights(folder: Path, sample: Sample, step: int, folds: int) -> float:
    """F1 of logistic regression, extended set, with chances at the share that buys: mean over the grouped folds."""
    examples, features = draw(folder, sample), features_of(sample.setting)
    scores = []
    for split in splits(examples, "grouped", folds=folds, seed=sample.seed):
        learnt = LearntFeatures.of(features, examples, split.train)
        matrix, bought = learnt.matrix(examples, step), examples.purchase
        fitted = fit("lr", learnt, matrix[split.train], bought[split.train], seed=sample.seed)
        chance = at_share(fitted.balanced(learnt, matrix[split.test]), fitted.share)
        scores.append(f1_of(chance >= 0.5, bought[split.test]))
    return float(np.mean(scores))


def head() -> str:
    return " | ".join(f"step {step}" for step in STEPS)


def f1(summary: Summary, step: int) -> str:
    return sets(summary, step, "f1")


def sets(summary: Summary, step: int, measure: str) -> str:
    """A measure of every model, baseline → extended."""
    means = {(row.model, row.feature_set): row.means[measure] for row in summary.rows if row.step == step}
    models = dict.fromkeys(model for model, _ in means)
    return ", ".join(
        f"{model} {100 * (means[model, 'baseline'] or 0):.1f} → {100 * (means[model, 'extended'] or 0):.1f}"
        for model in models
    )


if __name__ == "__main__":
    main()
