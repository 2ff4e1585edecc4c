"""Every format that visir writes and reads back: how a small example is written, read, and given another version.

Not here, because no version of them can be met: caches (an entry of another version lies in another folder and is made
again), reports (written and never read back), and foreign formats (TREC, NPZ, CIFF, hub checkpoints).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from visir.files import json_bytes, read_json
from visir.storage import MANIFEST, Manifest

SCENES = "scenes:4?size=64"


def manifest_version(path: Path, version: int) -> None:
    """Give a folder another version of its kind, properly sealed."""
    (path / MANIFEST).write_bytes(replace(Manifest.read(path), version=version).to_bytes())


def json_version(file: str, key: str) -> Callable[[Path, int], None]:
    """A function that changes the version in a JSON file of a folder, or of the file itself."""

    def change(path: Path, version: int) -> None:
        target = path / file if file else path
        target.write_bytes(json_bytes({**read_json(target), key: version}))

    return change


@dataclass(frozen=True)
class FixtureFormat:
    """A format with a fixture.

    Attributes:
        write: Writes the file or folder.
        read: Reads it, and checks a value.
        set_version: Changes its version.
        version: The version that this visir writes and reads.
        packages: The packages that writing and reading need.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    set_version: Callable[[Path, int], None] = manifest_version
    version: int = 1
    packages: tuple[str, ...] = ()


def _collection() -> Any:
    from visir.collections import open_collection

    return open_collection(SCENES)


def _embeddings() -> dict[Any, Any]:
    """Random vectors of 4 numbers for the scenes."""
    from visir.records import Embeddings, EncoderCard

    collection, numbers = _collection(), np.random.default_rng(0)
    card = EncoderCard("random", "test", "1")
    tables = {"image": collection.images, "text": collection.captions}
    return {
        modality: Embeddings(
            modality,  # type: ignore[arg-type]
            table["id"].to_pylist(),
            numbers.normal(size=(table.num_rows, 4)).astype(np.float32),
            card,
        )
        for modality, table in tables.items()
    }


def _sparse_embeddings() -> Any:
    from visir.records import EncoderCard, SparseEmbeddings, Vocabulary

    weights = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]])
    vocabulary = Vocabulary("three", ["dog", "cat", "bus"], np.ones(3, bool))
    return SparseEmbeddings.from_scipy("image", ["a", "b"], weights, vocabulary, EncoderCard("random", "test", "1"))


def _run() -> Any:
    from visir.retrieval.exact import search

    vectors = _embeddings()
    return search(vectors["text"], vectors["image"], "t2i", depth=2).run


def _write_result(path: Path) -> None:
    from visir.evaluation.evaluate import evaluate
    from visir.evaluation.results import save

    save(evaluate(_collection(), list(_embeddings().values()), depth=2), path)


def _read_result(path: Path) -> None:
    from visir.evaluation.results import load_evaluation

    evaluation = load_evaluation(path)
    assert set(evaluation.result.tasks) == {"t2i", "i2t"} == set(evaluation.runs)
    assert evaluation.result.mean("both", "rsum") > 0


def _write_run(path: Path) -> None:
    from visir.retrieval.formats import write_run

    write_run(_run(), path)


def _read_run(path: Path) -> None:
    from visir.retrieval.formats import read_run

    run = read_run(path)
    assert run.task == "t2i" and len(run) == 20


def _set_parquet_version(path: Path, version: int) -> None:
    import orjson

    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    metadata[b"visir.run"] = orjson.dumps({**orjson.loads(metadata[b"visir.run"]), "version": version})
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _write_collection(path: Path) -> None:
    from visir.collections.portable import save

    save(_collection(), path, "none")


def _read_collection(path: Path) -> None:
    from visir.collections.portable import load

    assert load(path).captions.num_rows == 20


def _write_embeddings(path: Path) -> None:
    from visir.encoders.models.vector_files import export

    export(path, _embeddings())


def _load_encoder(path: Path) -> None:
    from visir.encoders import load

    assert load(str(path), device="cpu").modalities


def _write_towers(path: Path) -> None:
    import visir
    from visir.training.recipe import Recipe

    recipe = Recipe.model_validate(
        {
            "name": "tiny",
            "dimension": 2,
            "data": {"collection": "scenes:20?size=64"},
            "optimiser": {"epochs": 1, "batch": 8},
            "image": {"tower": "frozen", "encoder": "pixels"},
            "text": {"tower": "frozen", "encoder": "bow:8"},
            "device": "cpu",
        }
    )
    visir.train(recipe, out=path)


def _write_categories_model(path: Path) -> None:
    from visir.products.encoding import encode_catalogue
    from visir.products.model import find_categories_recipe, read_categories_recipe
    from visir.products.opening import open_catalogue
    from visir.products.training import train_categories

    changes = ["optimiser.epochs=1", "category.head.hidden=[2]", "product.head.hidden=[2]", "dimension=2"]
    changes += ['encoders.image="pixels"', 'encoders.text="bow:8"']
    recipe = read_categories_recipe(find_categories_recipe("clip-ia-specific"), changes)
    vectors = encode_catalogue(open_catalogue("generated:30?size=64"), image="pixels", text="bow:8", titles=False)
    train_categories(recipe, vectors, vectors, path)


def _read_categories_model(path: Path) -> None:
    from visir.products.model import load_categories_model

    assert load_categories_model(path).modalities == ("image", "attributes")


def _write_sparse_encoder(path: Path) -> None:
    import tokenizers
    import torch

    from visir.encoders import load
    from visir.sparse.encoder import SparseEncoder, write_sparse
    from visir.sparse.language_model import SparseHead, WordEmbeddings
    from visir.sparse.vocabulary import Tokenizer

    texts = " ".join(_collection().captions["text"].to_pylist()).lower()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(re.findall(r"[a-z]+", texts)))]
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:4])
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer, dense = Tokenizer(library.to_str().encode(), "tiny"), load("bow:8")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        words = WordEmbeddings(torch.randn(len(pieces), 2), -torch.ones(len(pieces)), None, "random")
        head = SparseHead(dense.dimension, words, tokenizer.vocabulary.usable)
    path.mkdir()
    write_sparse(path, SparseEncoder(dense, head, tokenizer, variant="caption"))


def _write_sparse_embeddings(path: Path) -> None:
    from visir.sparse import save_sparse

    save_sparse(path, _sparse_embeddings())


def _read_sparse_embeddings(path: Path) -> None:
    from visir.sparse import load_sparse

    assert load_sparse(path).ids.to_pylist() == ["a", "b"]


def _write_index(kind: str) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        from visir.retrieval.kinds import build_index

        build_index(_sparse_embeddings() if kind == "inverted" else _embeddings()["image"], kind, path)

    return write


def _read_index(path: Path) -> None:
    from visir.retrieval.kinds import open_index

    assert open_index(path).info().documents in (2, 4)


def _write_text_index(path: Path) -> None:
    from visir.retrieval.text.index import TextIndex

    TextIndex.build(["a", "b"], {"title": ["red shoes", "blue shirt"], "colour": ["red", "navy blue"]}).save(path)


def _read_text_index(path: Path) -> None:
    from visir.retrieval.text.index import TextIndex

    assert TextIndex.open(path).search("rde shoe").ids == ("a",)


def _write_library(path: Path) -> None:
    from visir.collections.images import ImageReader
    from visir.library import update

    reader = ImageReader(_collection())
    with tempfile.TemporaryDirectory() as photos:
        for number in range(2):
            reader.open(number).save(Path(photos, f"{number}.png"))
        update(photos, path, model="pixels")


def _read_library(path: Path) -> None:
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(path) as library:
        assert len(library) == 2


def _write_sessions(path: Path) -> None:
    from visir.sessions import load_mapping, sessionise
    from visir.sessions.simulator import generate

    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder, "log"), 40, seed=0)
        sessionise(Path(folder, "log", "events"), load_mapping(Path(folder, "log", "mapping.toml")), path)


def _read_sessions(path: Path) -> None:
    from visir.sessions.description.session_log import open_log

    with open_log(path) as log:
        assert log.counts["sessions"] > 0


def _write_purchase_model(path: Path) -> None:
    from visir.sessions import load_mapping, sessionise
    from visir.sessions.prediction.training import train
    from visir.sessions.simulator import generate

    with tempfile.TemporaryDirectory() as folder:
        log, sessions = Path(folder, "log"), Path(folder, "sessions")
        generate(log, 2000, seed=0)
        sessionise(log / "events", load_mapping(log / "mapping.toml"), sessions)
        train(sessions, "lr").save(path)


def _read_purchase_model(path: Path) -> None:
    from visir.sessions.prediction.purchase_model import load_model

    assert load_model(path).card["model"] == "lr"


def _write_purchase_stream(path: Path) -> None:
    from visir.sessions.prediction.live import LiveScorer, save_state

    scorer = LiveScorer(_small_model())
    for minute in range(3):
        scorer.observe({"visitor": "ann", "time": minute * 60_000_000, "action": "page", "customer": "x"})
    save_state(scorer, path, lines=3)


def _read_purchase_stream(path: Path) -> None:
    from visir.sessions.prediction.live import LiveScorer, restore_state

    scorer = LiveScorer(_small_model())
    assert restore_state(scorer, path) == 3
    assert scorer.open_sessions == 1


def _small_model() -> Any:
    """A model without a classifier; its card is the same each time."""
    from visir.sessions.features import LearntFeatures
    from visir.sessions.prediction.models import LiveModel
    from visir.sessions.prediction.purchase_model import PurchaseModel

    model = LiveModel(LearntFeatures((), ()), (), (), None)
    return PurchaseModel({"all": model}, {"idle_minutes": 30.0, "zone": "UTC"})


def _write_prediction_study(path: Path) -> None:
    from visir.sessions.prediction.study import STUDY
    from visir.storage import put

    put(path, STUDY, {"study.json": json_bytes({"plan": {}, "found": {}})})


def _read_prediction_study(path: Path) -> None:
    from visir.sessions.prediction.study import load_study

    assert load_study(path)[1] == []


def _cell() -> Any:
    from visir_papers.cells import TableCell
    from visir_papers.experiment import Measurement

    measured = Measurement({"t2i R@1": 30.0}, {"system": "CLIP"}, {"split": "test"}, notes=("a note",))
    settings = {"system": "CLIP", "experiment": "evaluate"}
    return TableCell("CLIP", "COCO", 0, settings, "done", measured=measured)


def _write_study_cells(path: Path) -> None:
    from visir_papers.cells import StudyFolder

    StudyFolder(path).save(_cell())


def _read_study_cells(path: Path) -> None:
    from visir_papers.cells import StudyFolder

    cell = StudyFolder(path).load(replace(_cell(), state="not run"))
    assert cell.state == "done" and cell.measured.values == {"t2i R@1": 30.0}


def _write_trial(path: Path) -> None:
    from visir.studies.trial import begin_trial

    begin_trial(path, {"name": "tiny", "split": "test"})


def _read_trial(path: Path) -> None:
    from visir.studies.trial import check_same_trial

    check_same_trial(path, {"name": "tiny", "split": "test"})


def _write_tokens(path: Path) -> None:
    from visir.serving.tokens import SCOPES, Token, add_token, hash_of

    add_token(path, Token("anna", hash_of("visir_secret"), frozenset(SCOPES), datetime(2026, 1, 1, tzinfo=UTC), None))


def _read_tokens(path: Path) -> None:
    from visir.serving.tokens import read_tokens

    tokens, faults = read_tokens(path)
    assert [token.name for token in tokens] == ["anna"] and not faults


def _cells_version(path: Path, version: int) -> None:
    manifest_version(path / "cells", version)


FORMATS = {
    "result": FixtureFormat(_write_result, _read_result, json_version("result.json", "visir_result"), version=2),
    "run.json": FixtureFormat(_write_run, _read_run, json_version("", "visir_run")),
    "run.parquet": FixtureFormat(_write_run, _read_run, _set_parquet_version),
    "collection": FixtureFormat(_write_collection, _read_collection, json_version("collection.json", "version")),
    "embeddings": FixtureFormat(_write_embeddings, _load_encoder),
    "sparse-embeddings": FixtureFormat(_write_sparse_embeddings, _read_sparse_embeddings),
    "towers": FixtureFormat(_write_towers, _load_encoder, packages=("torch",)),
    "categories-model": FixtureFormat(_write_categories_model, _read_categories_model, packages=("torch",)),
    "sparse-encoder": FixtureFormat(_write_sparse_encoder, _load_encoder, packages=("torch", "tokenizers")),
    "index-exact": FixtureFormat(_write_index("exact"), _read_index),
    "index-hnsw": FixtureFormat(_write_index("hnsw"), _read_index, packages=("faiss",)),
    "index-inverted": FixtureFormat(_write_index("inverted"), _read_index),
    "text-index": FixtureFormat(_write_text_index, _read_text_index),
    "library.visir": FixtureFormat(_write_library, _read_library),
    "sessions": FixtureFormat(_write_sessions, _read_sessions, packages=("duckdb",)),
    "purchase-model": FixtureFormat(
        _write_purchase_model,
        _read_purchase_model,
        json_version("model.json", "visir_purchase_model"),
        version=2,
        packages=("duckdb", "sklearn"),
    ),
    "purchase-stream": FixtureFormat(
        _write_purchase_stream, _read_purchase_stream, json_version("", "visir_purchase_stream")
    ),
    "prediction-study": FixtureFormat(_write_prediction_study, _read_prediction_study, packages=("sklearn",)),
    "study-cells": FixtureFormat(_write_study_cells, _read_study_cells, _cells_version, version=2),
    "trial": FixtureFormat(_write_trial, _read_trial, packages=("torch",)),
    "tokens": FixtureFormat(_write_tokens, _read_tokens),
}
"""Every format, by the name of the file or folder in its fixture."""
