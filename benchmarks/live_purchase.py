"""How good live purchase scores are: visir's models beside the base rate and a plain logistic regression, by page.

    python benchmarks/live_purchase.py ../shared/data/sessions --out runs/live-purchase

Every real log in the folder that is there, and a generated one, split by time: trained on sessions that were over at a
moment, tested on those that began after it (the last 30 %; `shop-events` from 4 March 2025). Intervals are 95 %,
visitors drawn with replacement. Everything that was chosen (features, strengths, trees, the blend, the GRU's learning
rate) was chosen on `shop-events` alone; the other logs were only measured. So the rows of `shop-events` flatter.

It prints a Markdown table for each log, the sum over all scores from the first page on, and which targets are missed:
log loss below both references, ROC-AUC at least theirs. Then "gru" against "blend" on the same sessions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from visir.sessions import PurchaseModel, generate, make, train
from visir.sessions.examples import EverySession, draw
from visir.sessions.prediction.live_report import log_losses, rankings
from visir.sessions.prediction.models import temporal_split

LOGS = {
    "shop-events": "shop_events_14_days.tar.xz",
    "ga-sessions": "ga_sessions_sample.parquet",
    "ga4-events": "ga4_events_sample.parquet",
    "hotel-search": "hotel_sessions_100k.parquet",
}
TEST_FROM = {"shop-events": "2025-03-04T00:00Z"}
PAGES = (1, 2, 3, 5, 10)
MODELS = ("lr", "gbdt", "blend", "gru")
HEADS = ("page", "sessions, buy", "", "mean p", "log loss", "ROC-AUC", "PR-AUC")


def folders(data: Path, work: Path, sessions: int) -> dict[str, Path]:
    """The folder of sessions of every log that is there, and of a generated one."""
    made: dict[str, Path] = {}
    for name, file in LOGS.items():
        if (data / file).exists():
            made[name] = make(data / file, work / name, mapping=name, threads=1).folder
    generate(work / "log", sessions, seed=1)
    made["generated"] = make(
        work / "log" / "events", work / "generated", mapping=work / "log" / "mapping.toml", threads=1
    ).folder
    return made


def interval(values: list[Any], digits: int = 4) -> str:
    """A value and its interval."""
    value, low, high = ("–" if value is None else f"{value:.{digits}f}" for value in values)
    return f"{value} [{low}, {high}]"


def rows_of(models: dict[str, PurchaseModel], page: int) -> list[list[str]]:
    """The rows of a page: each model, then the references."""
    rows: list[list[str]] = []
    for name in (*models, "base rate", "plain LR"):
        report = models.get(name, models["blend"]).card["report"]
        at_page = next((part for part in report["pages"] if part["step"] == page), None)
        if at_page is None:
            continue
        measures = {key: values["model" if name in models else name] for key, values in at_page["measures"].items()}
        cells = [interval(measures[key]) for key in ("mean_p", "log_loss", "roc_auc", "pr_auc")]
        rows.append([str(page), f"{at_page['sessions']:,}, {at_page['purchases']:,}", name, *cells])
    return rows


def missed(model: PurchaseModel) -> list[str]:
    """Where a target is missed."""
    lacking = []
    for page in model.card["report"]["pages"]:
        if page["step"] == 0:
            continue
        for name in ("base rate", "plain LR"):
            for measure, sign in (("log_loss", 1), ("roc_auc", -1)):
                value, other = page["measures"][measure]["model"][0], page["measures"][measure][name][0]
                if value is not None and sign * (value - other) > 0:
                    lacking.append(f"page {page['step']}: {measure} {value:.4f}, {name} {other:.4f}")
    return lacking


def compared(model: PurchaseModel, other: PurchaseModel, folder: Path, samples: int = 500) -> list[list[str]]:
    """By page, and over all scores from page 1 on: how much less log loss and more ROC-AUC a model has than another.

    Both models score the same sessions; visitors are drawn with replacement, the same for both.
    """
    examples = draw(folder, EverySession())
    cut, idle = model.card["report"]["test_from"], model.card["idle_minutes"]
    test = temporal_split(examples, cut=cut, idle_minutes=idle).test & (examples.reached >= 1)
    names, visitor = np.unique(examples.visitor[test].astype(str), return_inverse=True)
    draws = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), samples)
    draws = np.concatenate([np.ones((1, len(names)), draws.dtype), draws])
    rows: list[list[str]] = []
    sums, counts = np.zeros(samples + 1), np.zeros(samples + 1)
    for step in range(1, 11):
        reached, buys = examples.reached[test] >= step, examples.purchase[test]
        if not reached.any() or step >= len(model.parts["all"].steps):
            break
        chances = [part.parts["all"].probability(examples, step)[test][reached] for part in (model, other)]
        losses = [log_losses(chance, buys[reached]) for chance in chances]
        each = np.bincount(visitor[reached], losses[1] - losses[0], len(names))
        size = np.bincount(visitor[reached], minlength=len(names))
        sums, counts = sums + draws @ each, counts + draws @ size
        if step in PAGES:
            weights = draws[:, visitor[reached]].astype(float)
            first, second = (rankings(chance, buys[reached], weights)["roc_auc"] for chance in chances)
            with np.errstate(invalid="ignore", divide="ignore"):
                less = (draws @ each) / (draws @ size)
            rows.append([str(step), ends(less), ends(first - second)])
    return [*rows, ["all from 1", ends(sums / counts), "–"]]


def ends(values: Any) -> str:
    """The first value, and the 95 % interval of the others."""
    drawn = values[1:][np.isfinite(values[1:])]
    if not np.isfinite(values[0]) or len(drawn) < 2:
        return "–"
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{values[0]:+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the real logs")
    parser.add_argument("--out", type=Path, help="write the reports there as JSON")
    parser.add_argument("--logs", nargs="+", choices=[*LOGS, "generated"], help="default: all that are there")
    parser.add_argument("--sessions", type=int, default=20_000, help="of the generated log")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for log, folder in folders(arguments.data, Path(work), arguments.sessions).items():
            if arguments.logs is not None and log not in arguments.logs:
                continue
            models = {name: train(folder, name, test_from=TEST_FROM.get(log)) for name in MODELS}
            drawn = models["blend"].card["drawn"]
            print(
                f"\n**{log}**: "
                + ", ".join(f"{k} {n['sessions']:,} ({n['purchases']:,} buy)" for k, n in drawn.items())
            )
            print("\n| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
            for page in PAGES:
                for row in rows_of(models, page):
                    print("| " + " | ".join(row) + " |")
            for name, model in models.items():
                less = model.card["report"]["less_loss"]
                gains = ", ".join(f"{other} {interval(values)}" for other, values in less.items())
                print(f"\n{name}: less log loss, all scores from page 1, than {gains}", flush=True)
            print("\n| page | gru: less log loss than blend | more ROC-AUC than blend |\n|---|---|---|")
            for row in compared(models["gru"], models["blend"], folder):
                print("| " + " | ".join(row) + " |", flush=True)
            for line in missed(models["blend"]):
                print(f"- blend misses: {line}", flush=True)
            if arguments.out is not None:
                arguments.out.mkdir(parents=True, exist_ok=True)
                cards = {name: model.card for name, model in models.items()}
                (arguments.out / f"{log}.json").write_text(json.dumps(cards, indent=1))


if __name__ == "__main__":
    main()
