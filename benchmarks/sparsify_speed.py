"""A training step of `visir sparsify` on the CPU beside the authors' way, from the same weights, on the same vectors.

    python benchmarks/sparsify_speed.py [--variants none caption] [--steps 8] [--states trained]

The rival is the step of the authors' released training script, written from its description: the 512 captions of a
batch are tokenised in every step; W2 gives all 30,522 weights of both sides; a mask over 30,522 columns is built and
multiplied when the batch's coin forbids expansion; scores are a product over 30,522 columns; two AdamW optimisers
without weight decay. It tokenises in the main process (the script has workers for it, which want cores of their own;
"tokenising" is its share of the step). Special tokens are off on both sides (the rival by a bias of -10,000), and coins
are drawn per batch, as it does, so that both compute the same losses: "loss" is the largest relative difference over
the steps, both sides moving on by their own gradients.

- fresh: the first steps of a head, half of whose terms are active; where captions are expanded visir then computes
  densely too
- trained: after `--warm` steps at high rates over the terms that some caption has (of 1,126 captions: 1,148), so that
  warming up takes seconds; a vector then has about as many active terms as in the papers' trained heads. What is timed
  has all of them again: 29,523 terms that may be active here, 30,522 there

`--states` leaves out a state; `--cpu-time` counts the seconds of the process on its cores, not those on the wall, where
other programs keep a machine busy (with OMP_NUM_THREADS=1, as waiting threads count). Each state and variant is timed
in turns, step by step, in one process; means over `--steps` steps are printed.
"Both" coins are forced for "caption": half of the steps expand, half do not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visir.collections import open_collection
from visir.encoders import load
from visir.files import data_directory
from visir.sparse.expansion import Expansion, ExpansionSample
from visir.sparse.language_model import EPSILON, SparseHead, words_of
from visir.sparse.loss import SparseLoss, score_active
from visir.sparse.run import SparseExamples, VocabularyPruning
from visir.sparse.vocabulary import load_tokenizer

BATCH = 512
ETA = 1e-3


class Ours:
    """visir's step."""

    def __init__(self, head: SparseHead, pairs: SparseExamples, rates: tuple[float, float]) -> None:
        self.head, self.pairs, self.loss = head, pairs, SparseLoss()
        groups = [
            {"params": [*head.project.parameters()], "lr": rates[0]},
            {"params": [*head.norm.parameters(), head.words, head.bias], "lr": rates[1]},
        ]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)

    def step(self, rows: Tensor, drawn: ExpansionSample, eta: float) -> float:
        """One update; returns the loss before it."""
        pairs = self.pairs
        images, texts = pairs.images[pairs.image_rows[rows]], pairs.texts[rows]
        self.optimiser.zero_grad()
        scored = score_active(self.head, images, texts, pairs.own[rows], drawn)
        self.terms = scored.image_terms.item(), scored.text_terms.item()
        loss = self.loss(scored, images, texts, eta)[0]
        loss.backward()
        self.optimiser.step()
        return loss.item()


class Rival:
    """The authors' step."""

    def __init__(
        self, head: SparseHead, pairs: SparseExamples, captions: list[str], tokenizer: Any, rates: tuple[float, float]
    ) -> None:
        self.pairs, self.captions, self.tokenizer = pairs, captions, tokenizer
        self.proj = nn.Linear(head.inputs, head.width)
        self.norm = nn.LayerNorm(head.width, eps=EPSILON)
        self.words = nn.Linear(head.width, head.size)
        self.proj.load_state_dict(head.project.state_dict())
        self.norm.load_state_dict(head.norm.state_dict())
        bias = torch.where(head.usable, head.bias.detach(), torch.tensor(-1e4))
        self.words.load_state_dict({"weight": head.words.detach(), "bias": bias})
        pretrained = [*self.norm.parameters(), *self.words.parameters()]
        self.first = torch.optim.AdamW(pretrained, lr=rates[1], weight_decay=0.0)
        self.second = torch.optim.AdamW(self.proj.parameters(), lr=rates[0], weight_decay=0.0)
        self.tokenising = 0.0

    def weights(self, vectors: Tensor, tokens: Any | None = None) -> Tensor:
        """(n, |V|), masked to the tokens if there are any."""
        weights = torch.log1p(torch.relu(self.words(self.norm(self.proj(vectors)))))
        if tokens is not None:
            mask = torch.zeros_like(weights)
            lines = torch.arange(len(weights)).unsqueeze(-1)
            mask[lines, tokens["input_ids"]] = tokens["attention_mask"].float()
            weights = weights * mask
        return weights

    def step(self, rows: Tensor, drawn: ExpansionSample, eta: float) -> float:
        """One update; returns the loss before it."""
        began = time.perf_counter()
        tokens = self.tokenizer(
            [self.captions[row] for row in rows.tolist()],
            truncation=True,
            padding=True,
            return_tensors="pt",
            add_special_tokens=False,
        )
        self.tokenising += time.perf_counter() - began
        images, texts = self.pairs.images[self.pairs.image_rows[rows]], self.pairs.texts[rows]
        self.first.zero_grad()
        self.second.zero_grad()
        sparse_texts = self.weights(texts, None if bool(drawn.captions[0]) else tokens)
        if drawn.words is not None:
            sparse_texts = sparse_texts * drawn.words
        sparse_images = self.weights(images)
        scores = sparse_images @ sparse_texts.t()
        with torch.no_grad():
            dense = images @ texts.t()
            i2t, t2i = torch.softmax(dense / 0.001, dim=1), torch.softmax(dense.t() / 0.001, dim=1)
        entropy = nn.functional.cross_entropy
        loss = (entropy(scores, i2t) + entropy(scores.t(), t2i)) / 2
        for weights in (sparse_texts, sparse_images):
            loss = loss + torch.abs(weights * eta).sum(dim=1).mean() / 2
        (sparse_texts > 0).float().sum(dim=-1).mean()
        (sparse_images > 0).float().sum(dim=-1).mean()
        loss.backward()
        self.first.step()
        self.second.step()
        return loss.item()


def draws(variant: str, steps: int, frequencies: Tensor) -> list[ExpansionSample]:
    """The coins of so many steps in the middle of a training; for "caption", every second batch expands."""
    plan = Expansion(variant, 3, "batch")  # type: ignore[arg-type]
    drawn = [plan.draw(1, step, torch.arange(BATCH), frequencies) for step in range(steps)]
    if variant.startswith("caption"):
        drawn = [ExpansionSample(torch.full((BATCH,), bool(step % 2)), one.words) for step, one in enumerate(drawn)]
    return drawn


def narrow(drawn: ExpansionSample, pruning: VocabularyPruning) -> ExpansionSample:
    """The same coins, of the terms that are trained."""
    return ExpansionSample(drawn.captions, None if drawn.words is None else drawn.words[pruning.terms])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = data_directory() / "clip_embeddings"
    parser.add_argument("--collection", default=str(folder / "shopsphere_1126_descriptions.csv.xz"))
    parser.add_argument("--split", default="all")
    parser.add_argument("--model", default=f"npz:{folder / 'shopsphere_1126_clip_f16.npz'}")
    parser.add_argument("--variants", nargs="+", default=["none", "caption", "caption+word", "free"])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warm", type=int, default=60)
    parser.add_argument("--states", nargs="*", choices=["fresh", "trained"], default=["fresh", "trained"])
    parser.add_argument("--cpu-time", action="store_true")
    asked = parser.parse_args()
    clock = time.process_time if asked.cpu_time else time.perf_counter

    from transformers import PreTrainedTokenizerFast

    collection = open_collection(asked.collection, images="none").split(asked.split)
    tokenizer = load_tokenizer()
    pairs = SparseExamples.of(collection, load(asked.model), tokenizer, torch.device("cpu"))
    unit = nn.functional.normalize
    pairs = SparseExamples(unit(pairs.images, dim=-1), unit(pairs.texts, dim=-1), *(getattr(pairs, name) for name in (
        "image_rows", "own", "terms", "frequencies", "origin", "ids")))  # fmt: skip
    captions = collection.captions["text"].to_pylist()
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer._reader, pad_token="[PAD]", model_max_length=512)
    words = words_of("st:all-MiniLM-L6-v2", 768)
    rng = np.random.default_rng(0)
    batches = [torch.from_numpy(rng.permutation(len(pairs))[:BATCH]) for _ in range(asked.warm + asked.steps)]
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, batch {BATCH}, {len(pairs):,} captions")
    print(f"{'variant':14}{'state':9}{'image terms':>12}{'text terms':>12}{'visir ms':>10}{'rival ms':>10}{'ratio':>8}"
          f"{'tokenising':>12}{'loss':>10}")  # fmt: skip
    for variant in asked.variants:
        torch.manual_seed(0)
        head = SparseHead(pairs.images.shape[1], words, tokenizer.vocabulary.usable)
        if "fresh" in asked.states:
            timed(variant, "fresh", head, pairs, captions, theirs, batches[: asked.steps], (1e-4, 5e-6), clock)
        if "trained" in asked.states:
            head = warmed(head, pairs, batches[: asked.warm], draws(variant, asked.warm, pairs.frequencies))
            timed(variant, "trained", head, pairs, captions, theirs, batches[asked.warm :], (1e-3, 5e-5), clock)


def warmed(head: SparseHead, pairs: SparseExamples, batches: list[Tensor], drawn: list[ExpansionSample]) -> SparseHead:
    """The head after so many steps at high rates."""
    pruning = VocabularyPruning.of(1, head, pairs)
    warming = Ours(pruning.prune(head), pruning.prune_examples(pairs), (1e-3, 1e-3))
    for step, (rows, coins) in enumerate(zip(batches, drawn, strict=True)):
        warming.step(rows, narrow(coins, pruning), ETA * min(1.0, step / 12) ** 2)
    return pruning.restore(warming.head, head)


def timed(
    variant: str,
    state: str,
    head: SparseHead,
    pairs: SparseExamples,
    captions: list[str],
    tokenizer: Any,
    batches: list[Tensor],
    rates: tuple[float, float],
    clock: Callable[[], float],
) -> None:
    pruning = VocabularyPruning.of("all", head, pairs)
    ours = Ours(pruning.prune(head), pruning.prune_examples(pairs), rates)
    rival = Rival(head, pairs, captions, tokenizer, rates)
    seconds, worst, terms = {"ours": 0.0, "rival": 0.0}, 0.0, []
    drawn = draws(variant, len(batches), pairs.frequencies)
    for rows, coins in zip(batches, drawn, strict=True):
        losses = []
        for name, contender in (("ours", ours), ("rival", rival)):
            began = clock()
            drawn_for = narrow(coins, pruning) if contender is ours else coins
            losses.append(contender.step(rows, drawn_for, ETA))  # type: ignore[attr-defined]
            seconds[name] += clock() - began
        terms.append(ours.terms)
        worst = max(worst, abs(losses[0] - losses[1]) / losses[1])
    a, b = (1000 * one / len(batches) for one in seconds.values())
    image, text = np.mean(terms, axis=0)
    print(f"{variant:14}{state:9}{image:12,.0f}{text:12,.0f}{a:10,.0f}{b:10,.0f}{b / a:7.2f}×"
          f"{1000 * rival.tokenising / len(batches):9.0f} ms{worst:10.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
