"""Categories of products that have none: right how often, and how well the confidence says so.

    python benchmarks/infer_categories.py --data FOLDER [--systems words,text:st:all-MiniLM-L6-v2] [--seeds 3]

In each catalogue a fifth of the categories is hidden, drawn by chance with each of the seeds. `--missing tree` hides
the products of whole categories instead (a tenth of the categories), which no method that reads only labelled products
can name: the confidences must say so. Beside visir's systems: the category that most products have, the plain vote of
the 5 nearest products and logistic regression, both over the same TF-IDF words (scikit-learn).

| column | what |
|---|---|
| exact | % of products whose category, of all levels, is named |
| first level | % whose most general category is right |
| confidence | mean confidence of the named category |
| ECE | mean distance of confidence and accuracy over 10 equal bins of confidence, in points |
| Brier | mean (confidence - right)² |
| base rate | the Brier score of saying the accuracy for every product |
| answered, right at 0.9 | of the answers with confidence 0.9 or more, by the most specific category that reaches it |
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from product_queries import PLACES, opened
from visir.products import infer_categories, open_catalogue
from visir.products.inference import chosen_rows, product_features
from visir.records import Catalogue

GENERATED = "generated"
ABOVE = 0.9


@dataclass(frozen=True)
class Answers:
    """The answers to hidden products.

    Attributes:
        named: The category of each product, "" for none.
        confidence: How sure each is.
        sure: The category with confidence 0.9 or more, "" for none.
    """

    named: list[str]
    confidence: NDArray[np.float64]
    sure: list[str]


def catalogue_of(name: str, data: Path) -> Catalogue:
    return open_catalogue("generated:2000") if name == GENERATED else opened(name, data)


def hidden_products(catalogue: Catalogue, missing: str, seed: int) -> list[str]:
    """Ids of the products whose category is hidden."""
    rng = np.random.default_rng(seed)
    ids = catalogue.products["id"].to_pylist()
    if missing == "chance":
        return sorted(rng.permutation(ids)[: len(ids) // 5].tolist())
    own = catalogue.products["category_id"].to_pylist()
    names = sorted(set(own))
    gone = set(rng.permutation(names)[: max(1, len(names) // 10)].tolist())
    return sorted(product for product, category in zip(ids, own, strict=True) if category in gone)


def by_visir(system: str) -> Callable[[Catalogue, list[str]], Answers]:
    def answers(catalogue: Catalogue, hidden: list[str]) -> Answers:
        every = infer_categories(catalogue, system, products=hidden)
        sure = infer_categories(catalogue, system, products=hidden, above=ABOVE)
        by_id = {product.id: product.answer for product in every.products}
        by_id_sure = {product.id: product.answer for product in sure.products}
        return Answers(
            [answer.id if (answer := by_id[product]) else "" for product in hidden],
            np.array([answer.confidence if (answer := by_id[product]) else 0.0 for product in hidden]),
            [answer.id if (answer := by_id_sure[product]) else "" for product in hidden],
        )

    return answers


def by_majority(catalogue: Catalogue, hidden: list[str]) -> Answers:
    own = dict(zip(*(catalogue.products[column].to_pylist() for column in ("id", "category_id")), strict=True))
    counts = Counter(category for product, category in own.items() if product not in set(hidden))
    ((name, count),) = counts.most_common(1)
    share = count / counts.total()
    return Answers([name] * len(hidden), np.full(len(hidden), share), [name if share >= ABOVE else ""] * len(hidden))


def by_sklearn(kind: str) -> Callable[[Catalogue, list[str]], Answers]:
    def answers(catalogue: Catalogue, hidden: list[str]) -> Answers:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier

        ids = catalogue.products["id"].to_pylist()
        rows = {product: row for row, product in enumerate(ids)}
        out = np.array([rows[product] for product in hidden])
        rest = np.setdiff1d(np.arange(len(ids)), out)
        words = product_features(catalogue, "words").products
        labels = np.array(catalogue.products["category_id"].to_pylist())
        model = (
            KNeighborsClassifier(5, metric="cosine", algorithm="brute")
            if kind == "5 nearest"
            else LogisticRegression(C=30, max_iter=300)
        )
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model.fit(chosen_rows(words, rest), labels[rest])
        shares = model.predict_proba(chosen_rows(words, out))
        best, confidence = shares.argmax(axis=1), shares.max(axis=1)
        named = [str(model.classes_[at]) for at in best]
        return Answers(
            named, confidence, [name if sure >= ABOVE else "" for name, sure in zip(named, confidence, strict=True)]
        )

    return answers


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_], bins: int = 10) -> float:
    """Mean distance of confidence and accuracy over bins with equally many products."""
    parts = np.array_split(np.argsort(confidence, kind="stable"), bins)
    return sum(len(part) * abs(confidence[part].mean() - right[part].mean()) for part in parts if len(part)) / len(
        right
    )


def belongs(category: str, answer: str) -> bool:
    return f"{category} > ".startswith(f"{answer} > ")


def measured(catalogue: Catalogue, draws: list[list[str]], answers: list[Answers]) -> dict[str, float]:
    """All columns, over the products of all draws together."""
    own = dict(zip(*(catalogue.products[column].to_pylist() for column in ("id", "category_id")), strict=True))
    truth = [own[product] for hidden in draws for product in hidden]
    named = [name for part in answers for name in part.named]
    confidence = np.concatenate([part.confidence for part in answers])
    right = np.array([belongs(category, name) for category, name in zip(truth, named, strict=True)])
    pairs = zip(truth, (name for part in answers for name in part.sure), strict=True)
    sure = [belongs(category, name) for category, name in pairs if name]
    return {
        "exact": 100 * float(np.mean([category == name for category, name in zip(truth, named, strict=True)])),
        "first level": 100 * float(np.mean([first(a) == first(b) for a, b in zip(truth, named, strict=True)])),
        "confidence": 100 * float(confidence.mean()),
        "ECE": 100 * calibration_error(confidence, right),
        "Brier": float(((confidence - right) ** 2).mean()),
        "base rate": float(right.mean() * (1 - right.mean())),
        "answered at 0.9": 100 * len(sure) / len(truth),
        "right at 0.9": 100 * float(np.mean(sure)) if sure else float("nan"),
    }


def first(category: str) -> str:
    """The most general category of a path."""
    return category.split(" > ")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with products_flipkart_1050 and the like")
    parser.add_argument("--catalogues", default=",".join([GENERATED, *PLACES]))
    parser.add_argument("--systems", default="words")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--missing", choices=("chance", "tree"), default="chance")
    arguments = parser.parse_args()
    methods: dict[str, Callable[[Catalogue, list[str]], Answers]] = {
        system: by_visir(system) for system in arguments.systems.split(",")
    }
    methods |= {"largest category": by_majority}
    methods |= {kind: by_sklearn(kind) for kind in ("5 nearest", "logistic regression")}
    for name in arguments.catalogues.split(","):
        catalogue = catalogue_of(name, arguments.data)
        draws = [hidden_products(catalogue, arguments.missing, seed) for seed in range(arguments.seeds)]
        inhabited = len(set(catalogue.products["category_id"].to_pylist()))
        print(f"\n### {name}: {catalogue.products.num_rows:,} products in {inhabited} categories, hidden: "
              f"{', '.join(str(len(hidden)) for hidden in draws)}\n")  # fmt: skip
        header = ""
        for system, method in methods.items():
            began = time.process_time()
            values = measured(catalogue, draws, [method(catalogue, hidden) for hidden in draws])
            spent = (time.process_time() - began) / len(draws)
            if not header:
                header = f"| method | {' | '.join(values)} | s |\n|---|{'---|' * (len(values) + 1)}"
                print(header)
            cells = [
                f"{value:.3f}" if column in ("Brier", "base rate") else f"{value:.1f}"
                for column, value in values.items()
            ]
            print(f"| {system} | {' | '.join(cells)} | {spent:.1f} |".replace("nan", "-"), flush=True)


if __name__ == "__main__":
    main()
