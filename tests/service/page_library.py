"""A small real library for the page: generated scenes as photos of odd shapes, with odd names, captions and facts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import tokenizers
import torch

from visir.collections.images import ImageReader
from visir.collections.opening import open_collection
from visir.encoders import load
from visir.library import update
from visir.sparse.encoder import SparseEncoder, write_sparse
from visir.sparse.language_model import SparseHead, WordEmbeddings
from visir.sparse.vocabulary import Tokenizer
from visir.training import train

HACK = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
NAMES = [
    'it\'s "odd" <img src=x onerror=window.hacked=1>.png',
    "n" * 180 + ".png",
    "plus+and&percent%41#hash?.png",
    "déjà vu – 犬.png",
]
CAPTIONS = [HACK, 'a "quoted" & <b>bold</b> caption', "longest " * 60, "\u202egnitirw sdrawkcab"]
SHAPES = [(96, 96), (160, 90), (90, 150), (600, 30), (30, 500)]
CATEGORIES = ["farm/spring", "farm/autumn", "town", "a <b>bold<i>/place"]


def make_model(folder: Path) -> tuple[Path, Path]:
    """A dense model trained for an epoch, and an untrained head over it: what they find is arbitrary, but the same."""
    dense = train("scenes-heads", "scenes:60?size=64", out=folder / "dense", epochs=1).path
    encoder = load(str(dense))
    texts = " ".join(open_collection("scenes:60?size=64").captions["text"].to_pylist()).lower()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(re.findall(r"[a-z]+", texts)))]
    words = {piece: number for number, piece in enumerate(pieces)}
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:4])
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = Tokenizer(library.to_str().encode(), "tiny")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        said = WordEmbeddings(torch.randn(len(pieces), 8), torch.zeros(len(pieces)), None, "random")
        head = SparseHead(encoder.dimension, said, tokenizer.vocabulary.usable)
    sparse = folder / "sparse"
    sparse.mkdir()
    write_sparse(sparse, SparseEncoder(encoder, head, tokenizer, variant="caption"))
    return dense, sparse


def make_photos(folder: Path, count: int = 90) -> Path:
    """Photos and a table of captions and facts; the first few are as odd as they can be."""
    scenes = open_collection(f"scenes:{count}?size=96&seed=3")
    captions = scenes.captions["text"].to_pylist()
    reader, rows = ImageReader(scenes), []
    folder.mkdir()
    for n in range(count):
        name = NAMES[n] if n < len(NAMES) else f"photo {n:03}.png"
        width, height = SHAPES[n % len(SHAPES)]
        noise = np.random.default_rng(n).integers(0, 255, 3)  # so that no two are equal
        picture = reader.open(n).resize((width, height))
        picture.putpixel((0, 0), (int(noise[0]), int(noise[1]), int(noise[2])))
        picture.save(folder / name)
        said = [CAPTIONS[n]] if n < len(CAPTIONS) else captions[5 * n : 5 * n + 3]
        fact = {"camera_kind": HACK if n == 0 else ("phone", "reflex")[n % 2], "stars": n % 5}
        rows.append({"file_name": name, "caption": said, "category": CATEGORIES[n % len(CATEGORIES)], **fact})
    table = folder / "photos.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table


def make_libraries(folder: Path) -> list[Path]:
    """The odd one, "photos", with both systems; "plain", dense only, of the same pictures."""
    dense, sparse = make_model(folder)
    table = make_photos(folder / "photos")
    update(str(table), folder / "one", model=str(dense), head=str(sparse), name="photos")
    update(str(table), folder / "two", model=str(dense), name="plain <i>")
    return [folder / "one", folder / "two"]
