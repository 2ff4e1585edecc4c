"""Thesis Tables 3.1, 3.2, 3.3 and 3.5 and Figure 3.2 in miniature: what words cost, and what they lose.

    VISIR_DATA=../shared/data python benchmarks/sparse_tables.py [--recipe sparse-scenes] [--etas 1e-3 1e-5]

Trains a recipe of a sparse head in the four variants of expansion control with several η and seeds, evaluates them
beside the dense model they are made from, prints the tables with the published values as quoted rows, says whether the
chapter's shapes came out, and draws its figure. Finished trainings are kept; the same command goes on.

    --recipe sparse-flickr8k --set encoder=runs/flickr8k-heads-seed0 --only none caption --seeds 0
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sparse_study import (
    ETAS,
    QUOTED,
    SEEDS,
    VARIANTS,
    SparseStudy,
    coactivation,
    cost_and_effect,
    deviation,
    effectiveness,
    faithfulness,
    overlap_histogram,
    sparse_trend_checks,
    study,
)
from visir.reports import to_terminal
from visir.reports.plots import to_svg
from visir.sparse.recipe import read_sparse_recipe
from visir.storage import write_new
from visir.training.shipped import find_recipe


def draw(found: SparseStudy, out: Path) -> list[Path]:
    """Figure 3.2a over all models; 3.2b of the variant with caption-level control (or the first) at each η."""
    curves = {
        variant: [
            (one.eta, float(one.cost("flops").mean()), 100 * float(one.effects("hit@1").mean()))
            for (of, _), one in found.models.items()
            if of == variant
        ]
        for variant in dict.fromkeys(variant for variant, _ in found.models)
    }
    figures = {"figure-3.2a": cost_and_effect(curves, 100 * found.dense.result.mean("t2i", "hit@1"))}
    shown = "caption" if "caption" in curves else next(iter(curves))
    for variant, eta in found.models:
        if variant == shown:
            figures[f"figure-3.2b-{variant}-eta{eta:g}"] = overlap_histogram(found.overlap((variant, eta)).ravel())
    written = []
    for name, plot in figures.items():
        written.append(out / f"{name}.svg")
        write_new(written[-1], to_svg(plot).encode(), replace=True)
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="sparse-scenes", help="a shipped recipe of a sparse head, or a TOML file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one of its keys")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--etas", type=float, nargs="+", default=list(ETAS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--split", default="test", help="the split that is evaluated")
    parser.add_argument("--quoted", default=QUOTED, help="published rows of this collection; '' for none")
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/sparse"))
    asked: Any = parser.parse_args(arguments)
    recipe = read_sparse_recipe(find_recipe(asked.recipe, "sparsify"), asked.set)
    out = asked.out / recipe.name
    found = study(
        recipe, out, variants=asked.only, etas=asked.etas, seeds=asked.seeds, split=asked.split, jobs=asked.jobs
    )
    console = Console(width=130)
    for table in (effectiveness, coactivation, deviation, faithfulness):
        console.print(to_terminal(table(found, asked.quoted or None)))
    for check in sparse_trend_checks(found):
        holds = "yes" if check.holds else "NO "
        console.print(f"{holds:3} {check.statement}: {check.numbers}", highlight=False, soft_wrap=True)
    print(*draw(found, out), sep="\n")


if __name__ == "__main__":
    main()
