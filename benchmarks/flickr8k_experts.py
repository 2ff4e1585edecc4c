"""Is `dcg_cm` worth trusting? Estimators of what a wrong answer is worth, beside human experts (Flickr8k).

    VISIR_DATA=../shared/data python benchmarks/flickr8k_experts.py --models runs/flickr8k-heads-seed0 runs/words …

Experts graded 5,822 pairs of a caption and an image of the test split, 1 (does not describe it at all) to 4. Here a
grade is the mean of three experts, minus 1.

1. Rank correlation of each estimator's cosines with the grades: over all judged pairs that are no links, because only
   of those is the estimator asked (a link counts 1); Spearman's ρ and Kendall's τ_c, and τ_c over all pairs, which is
   how the literature on captioning measures prints it. Also within captions: the share of concordant pairs of images,
   ties of the experts left out. Intervals: bootstrap over captions' images.
2. Systems judged three ways, text to image: R@1; dcg_cm@10 under each estimator; nDCG@10 under the experts' grades,
   over all images (unjudged ones count 0) and over the judged ones alone. Then the rank correlation over systems, and
   over queries, of each with the experts' nDCG.

Estimators: every dense model of --models, and three that need no model of both sides: MiniLM, a caption beside the
mean of an image's captions (text only); MobileNetV2, the caption's own image beside the other one (images only);
nobody (every wrong answer is worth 0: then dcg_cm is a discounted R@10).
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau, spearmanr

import visir
from visir.evaluation.systems import EncoderSystem
from visir.files import data_directory
from visir.records import Collection, Embeddings, EncoderCard, SparseEmbeddings, Vectors

SAMPLES = 1_000
NOBODY = EncoderCard("nobody", "imported")


@dataclass(frozen=True, eq=False)
class Judged:
    """The experts' pairs as rows: (m,) of captions, of images, grades, and whether a pair is a link."""

    captions: NDArray[np.int64]
    images: NDArray[np.int64]
    grades: NDArray[np.float64]
    links: NDArray[np.bool_]
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, part: Collection) -> Judged:
        """The pairs that the experts of a split judged."""
        rows = part.judgements.filter(pc.equal(part.judgements["relevance"], "experts"))
        captions = pc.index_in(rows["caption_id"], part.captions["id"].combine_chunks()).to_numpy().astype(np.int64)
        images = pc.index_in(rows["image_id"], part.images["id"].combine_chunks()).to_numpy().astype(np.int64)
        own = pc.index_in(part.captions["image_id"], part.images["id"].combine_chunks()).to_numpy().astype(np.int64)
        return cls(captions, images, rows["grade"].to_numpy().astype(float), own[captions] == images, own[captions])


def encoded(part: Collection, name: str) -> tuple[Vectors, Vectors]:
    system = EncoderSystem(visir.load(name))
    return system.vectors(part.items("image"), "document"), system.vectors(part.items("text"), "query")


def text_only(part: Collection) -> tuple[Embeddings, Embeddings]:
    """Captions by MiniLM; an image is the mean of its captions' unit vectors."""
    texts = visir.encode(visir.load("st:all-MiniLM-L6-v2"), part, "text")
    rows = texts.select(part.captions["id"])
    unit = np.asarray(rows.vectors, np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    own = pc.index_in(part.captions["image_id"], part.images["id"].combine_chunks()).to_numpy()
    mean = np.zeros((part.images.num_rows, unit.shape[1]))
    np.add.at(mean, own, unit)
    return Embeddings("image", part.images["id"], mean.astype(np.float32), texts.encoder, False), texts


def image_only(part: Collection) -> tuple[Embeddings, Embeddings]:
    """Pictures by MobileNetV2; a caption is its own image."""
    images = visir.encode(visir.load("mobilenet_v2"), part, "image")
    own = np.asarray(images.vectors)[images.rows(part.captions["image_id"])]
    return images, Embeddings("text", part.captions["id"], own, images.encoder, images.normalised)


def scores(part: Collection, vectors: tuple[Vectors, Vectors], judged: Judged) -> NDArray[np.float64]:
    """(m,) the cosine (sparse: the dot product) of each judged pair."""
    images, texts = vectors
    one, other = (
        side.rows(table["id"].take(pa.array(places)))
        for side, table, places in ((texts, part.captions, judged.captions), (images, part.images, judged.images))
    )
    if isinstance(images, SparseEmbeddings) and isinstance(texts, SparseEmbeddings):
        left, right = texts.to_scipy().astype(np.float64), images.to_scipy().astype(np.float64)
        return np.asarray(left[one].multiply(right[other]).sum(axis=1)).ravel()
    assert isinstance(images, Embeddings) and isinstance(texts, Embeddings)
    left, right = (np.asarray(side.vectors, np.float64)[rows] for side, rows in ((texts, one), (images, other)))
    return (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def tau_c(values: NDArray[np.float64], grades: NDArray[np.float64]) -> float:
    return float(kendalltau(values, grades, variant="c").statistic)


def concordant(values: NDArray[np.float64], judged: Judged, kept: NDArray[np.bool_]) -> float:
    """Of two images judged differently for one caption: how often the better one has the higher score."""
    right, all_ = 0.0, 0
    captions, grades, found = judged.captions[kept], judged.grades[kept], values[kept]
    for caption in np.unique(captions):
        rows = captions == caption
        better = grades[rows][:, None] > grades[rows][None, :]
        gap = found[rows][:, None] - found[rows][None, :]
        right += float((better & (gap > 0)).sum() + 0.5 * (better & (gap == 0)).sum())
        all_ += int(better.sum())
    return right / all_


def interval(values: NDArray[np.float64], judged: Judged, kept: NDArray[np.bool_]) -> tuple[float, float]:
    """95 % bootstrap interval of Spearman's ρ, drawn over the captions' images."""
    owners, found, grades = judged.owners[kept], values[kept], judged.grades[kept]
    rows_of = {owner: np.flatnonzero(owners == owner) for owner in np.unique(owners)}
    rng, known = np.random.default_rng(0), list(rows_of)
    drawn = []
    for _ in range(SAMPLES):
        rows = np.concatenate([rows_of[known[i]] for i in rng.integers(0, len(known), len(known))])
        drawn.append(spearmanr(found[rows], grades[rows]).statistic)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def human_ndcg(values: NDArray[np.float64], judged: Judged, captions: int) -> NDArray[np.float64]:
    """(captions,) nDCG@10 over a caption's judged images alone, linear gains; NaN where nothing judged is relevant."""
    found = np.full(captions, np.nan)
    for caption in np.unique(judged.captions):
        rows = np.flatnonzero(judged.captions == caption)
        grades = judged.grades[rows]
        if grades.max() > 0 and len(rows) > 1:
            order = np.lexsort((judged.images[rows], -values[rows]))
            discount = 1 / np.log2(np.arange(2, min(len(rows), 10) + 2))
            got = (grades[order][:10] * discount).sum()
            found[caption] = got / (np.sort(grades)[::-1][:10] * discount).sum()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, help="systems, [LABEL=]NAME; dense ones estimate too")
    arguments = parser.parse_args()
    folder = data_directory() / "flickr8k"
    source = f"karpathy:{folder / 'dataset_flickr8k.karpathy_schema.json.xz'}"
    part = visir.open(source, judgements=folder).split("test")
    judged = Judged.of(part)
    # A label is what stands before "=", unless that is a part of a name ("npz:a?b=c", a path).
    labelled = [one.split("=", 1) if re.match(r"[\w +.-]+=", one) else [one, one] for one in arguments.models]
    systems = {label: encoded(part, name) for label, name in labelled}
    estimators = {name: one for name, one in systems.items() if isinstance(one[0], Embeddings)}
    estimators |= {"MiniLM, captions of the image": text_only(part), "MobileNetV2, images": image_only(part)}
    wrong = ~judged.links
    console = Console(width=150)
    table = Table(title=f"Estimators beside experts: {wrong.sum():,} judged wrong answers, {len(wrong):,} pairs in all")
    for name in ("estimator", "ρ", "95 %", "τ_c", "τ_c, all pairs", "right order %"):
        table.add_column(name)
    for name, vectors in estimators.items():
        values = scores(part, vectors, judged)
        low, high = interval(values, judged, wrong)
        table.add_row(
            name,
            f"{spearmanr(values[wrong], judged.grades[wrong]).statistic:.3f}",
            f"{low:.3f}–{high:.3f}",
            f"{tau_c(values[wrong], judged.grades[wrong]):.3f}",
            f"{tau_c(values, judged.grades):.3f}",
            f"{100 * concordant(values, judged, wrong):.1f}",
        )
    console.print(table)

    nobody = (
        Embeddings("image", part.images["id"], np.tile(np.float32([1, 0]), (part.images.num_rows, 1)), NOBODY),
        Embeddings("text", part.captions["id"], np.tile(np.float32([0, 1]), (part.captions.num_rows, 1)), NOBODY),
    )
    judges = estimators | {"nobody (0)": nobody}
    columns: dict[str, list[NDArray[np.float64]]] = {}
    for vectors in systems.values():
        ids = part.captions["id"]

        def add(column: str, values: NDArray[np.float64]) -> None:
            columns.setdefault(column, []).append(values)

        graded = visir.evaluate(part, vectors, relevance="experts", tasks=["t2i"], measures=["ndcg@10"]).result
        places = pc.index_in(ids, graded.per_query["t2i"]["query_id"].combine_chunks())
        full = graded.per_query["t2i"]["ndcg@10"].combine_chunks().take(places).to_numpy(zero_copy_only=False)
        add("nDCG@10, judged only", human_ndcg(scores(part, vectors, judged), judged, len(ids)))
        add("nDCG@10, all images", full.astype(float))
        for judge, estimator in judges.items():
            found = visir.evaluate(
                part, vectors, tasks=["t2i"], estimator=estimator, measures=["hit@1", "dcg_cm@10"]
            ).result
            places = pc.index_in(ids, found.per_query["t2i"]["query_id"].combine_chunks())
            if judge == "nobody (0)":
                add("R@1", found.per_query["t2i"]["hit@1"].combine_chunks().take(places).to_numpy().astype(float))
            add(f"dcg_cm@10 by {judge}", found.per_query["t2i"]["dcg_cm@10"].combine_chunks().take(places).to_numpy())
    table = Table(title=f"{len(systems)} systems, text to image")
    for label in ("measure", *systems):
        table.add_column(label)
    for column, values in columns.items():
        table.add_row(column, *(f"{np.nanmean(one):.3f}" for one in values))
    console.print(table)
    table = Table(
        title="Rank correlation with the experts' nDCG@10 (Kendall's τ_b over systems; mean Spearman's ρ over queries)"
    )
    for name in (
        "measure",
        "systems, judged only",
        "systems, all images",
        "queries, judged only",
        "queries, all images",
    ):
        table.add_column(name)
    humans = ("nDCG@10, judged only", "nDCG@10, all images")
    for column, values in columns.items():
        if column in humans:
            continue
        cells = []
        for human in humans:
            means = [[np.nanmean(one) for one in columns[which]] for which in (column, human)]
            cells.append(f"{kendalltau(*means).statistic:.2f}")
        for human in humans:
            each = []
            for one, other in zip(values, columns[human], strict=True):
                known = ~np.isnan(other)
                each.append(spearmanr(one[known], other[known]).statistic)
            cells.append(f"{np.mean(each):.3f}")
        table.add_row(column, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
