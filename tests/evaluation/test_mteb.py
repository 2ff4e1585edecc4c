"""The package mteb, both ways: through its own evaluator, on small generated tasks, numbers agree to 1e-9."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.collections import open_source
from visir.errors import CollectionError, VisirError
from visir.evaluation.mteb import MTEB_MEASURES, MtebResults, mteb_name, read_mteb
from visir.records import TaskFile, TaskSet

mteb: Any
datasets: Any


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """mteb takes seconds to import: in the worker that runs these tests alone."""
    global mteb, datasets
    mteb, datasets = pytest.importorskip("mteb"), pytest.importorskip("datasets")


WORDS = ["red", "blue", "green", "boat", "dog", "cat", "tree", "house", "night", "day"]
TRECS = {"ndcg": "ndcg_cut_", "map": "map_cut_", "recall": "recall_", "precision": "P_", "hit": "success_"}


class Toy(visir.Encoder):
    """Words, colours, and their sums; many pairs tie."""

    def embed_texts(self, texts: Any) -> Any:
        return [[text.split().count(word) + 0.01 for word in WORDS] + [0.1] * 3 for text in texts]

    def embed_images(self, batch: Any) -> Any:
        return [[0.1] * 10 + [1 + value // 64 for value in image.getpixel((0, 0))] for image in batch]

    def embed_texts_with_images(self, texts: Any, batch: Any) -> Any:
        return np.array(self.embed_texts(texts)) + np.array(self.embed_images(batch))


class Roles(visir.Encoder):
    """Queries and documents in different ways."""

    distinguishes_roles = True
    role = "document"

    def for_role(self, role: Any) -> Roles:
        encoder = Roles()
        encoder.role = role
        return encoder

    def embed_texts(self, texts: Any) -> Any:
        shift = 0.5 if self.role == "query" else 0.0
        return [[text.split().count(word) + shift + 0.01 * place for place, word in enumerate(WORDS)] for text in texts]


def late() -> Any:
    def tokens(texts: list[str]) -> list[Any]:
        return [np.array([[word == own for own in WORDS] for word in text.split()], np.float32) for text in texts]

    return visir.Encoder.wrap("late", text=tokens, form="multi-vector")


def task(category: Any = "t2t", *, subsets: Any = ("default",), splits: Any = ("test",), top: bool = False,
         own: bool = False, **settings: Any) -> Any:  # fmt: skip
    """A small retrieval task of mteb, always the same; `own` gives queries the ids of documents."""
    languages = ["eng-Latn"] if list(subsets) == ["default"] else {name: ["eng-Latn"] for name in subsets}

    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class Small(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="VisirSmall", description="small", dataset={"path": "visir/small", "revision": "1"},
            type="Any2AnyRetrieval", category=category, eval_splits=list(splits), eval_langs=languages,
            main_score="ndcg_at_10", modalities=["text", "image"] if "i" in category else ["text"],
        )  # fmt: skip

        def load_data(self, num_proc: int | None = None, **options: Any) -> None:
            rng = np.random.default_rng(7)

            def rows(count: int, letter: str, holds: str) -> Any:
                listed: list[dict[str, Any]] = []
                for number in range(count):
                    row: dict[str, Any] = {"id": f"{'x' if own else letter}{number}"}
                    if "t" in holds:
                        row["text"] = " ".join(rng.choice(WORDS, 3))
                        row |= {"title": "red" if number % 3 else ""} if letter == "d" else {}
                    if "i" in holds:
                        row["image"] = Image.fromarray(np.full((8, 8, 3), rng.integers(0, 255, 3), np.uint8))
                    listed.append(row)
                return datasets.Dataset.from_list(listed)

            query, document = ("x", "x") if own else ("q", "d")
            self.dataset = {}
            for subset in subsets:
                self.dataset[subset] = {}
                for split in splits:
                    chosen = {f"{query}{n}": rng.choice(40, 12, replace=False).tolist() for n in range(15)}
                    self.dataset[subset][split] = {
                        "queries": rows(15, "q", category.split("2")[0]),
                        "corpus": rows(40, "d", category.split("2")[1]),
                        "relevant_docs": {name: {f"{document}{n}": int(rng.integers(0, 3)) for n in numbers[:4]}
                                          for name, numbers in chosen.items()},
                        "top_ranked": {name: [f"{document}{n}" for n in numbers] for name, numbers in chosen.items()}
                        if top else None,
                    }  # fmt: skip
            self.data_loaded = True

    for name, value in settings.items():
        setattr(Small, name, value)
    return Small()


def by_mteb(model: Any, small: Any, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The result of mteb's own evaluation, and the answers that it measured, by subset."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mteb.evaluate(model, small, cache=None, show_progress_bar=False, prediction_folder=folder)
    import orjson

    predictions = orjson.loads((folder / "VisirSmall_predictions.json").read_bytes())
    return result.task_results[0], predictions


CASES = {
    "texts": ("t2t", {}, Toy),
    "roles": ("t2t", {}, Roles),
    "several vectors": ("t2t", {}, late),
    "pools": ("t2t", {"top": True}, Toy),
    "text to image": ("t2i", {}, Toy),
    "image to text": ("i2t", {}, Toy),
    "mixed": ("it2it", {}, Toy),
    "text to mixed": ("t2it", {}, Toy),
    "identical ids counted": ("i2i", {"own": True}, Toy),
    "identical ids ignored": ("i2i", {"own": True, "ignore_identical_ids": True}, Toy),
    "first result skipped": ("i2i", {"own": True, "skip_first_result": True}, Roles),
}


@pytest.mark.parametrize("case", CASES)
def test_both_evaluators_agree(case: str, tmp_path: Path) -> None:
    category, settings, encoder = CASES[case]
    if case == "first result skipped":
        category, settings = "t2t", {**settings}
    small, model = task(category, **settings), encoder()
    result, predictions = by_mteb(visir.mteb_model(model), small, tmp_path)
    source = visir.open(small)
    evaluation = visir.evaluate(source, model, measures="mteb", depth=1000)
    scores, measured = result.scores["test"][0], evaluation.aggregates[evaluation.tasks[0]]
    answers = predictions["default"]["test"]
    if settings.get("ignore_identical_ids"):
        answers = {q: {d: s for d, s in found.items() if d != q} for q, found in answers.items()}
    judged = source.task(source.tasks[0]).judgements().to_dict()
    judged = {query: {document: int(grade) for document, grade in graded.items()} for query, graded in judged.items()}
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    whole = calculate_retrieval_scores(answers, judged, [1, 3, 5, 10, 20, 100, 1000],
                                       bool(settings.get("skip_first_result"))).all_scores  # fmt: skip
    for name in MTEB_MEASURES:
        measure, _, cutoff = name.partition("@")
        own = measured[name]
        assert scores[mteb_name(name)] == pytest.approx(own, abs=1e-9 if measure == "mrr" else 1.01e-5), name
        if measure in TRECS:
            values = {query: entry[f"{TRECS[measure]}{cutoff}"] for query, entry in whole.items()}
            assert np.mean(list(values.values())) == pytest.approx(own, abs=1e-9), name
            per_query = dict(zip(evaluation.per_query[evaluation.tasks[0]]["query_id"].to_pylist(),
                                 evaluation.values(evaluation.tasks[0], name), strict=True))  # fmt: skip
            assert per_query == pytest.approx(values, abs=1e-9), name


def test_subsets_and_splits(tmp_path: Path) -> None:
    small, model = task(subsets=("en", "de"), splits=("test", "dev")), Toy()
    result, _ = by_mteb(visir.mteb_model(model), small, tmp_path)
    for split in ("test", "dev"):
        source = open_source(small, split=split)
        assert isinstance(source, TaskSet)
        evaluation = visir.evaluate(source, model, measures="mteb")
        assert evaluation.tasks == ("en", "de")
        for entry in result.scores[split]:
            own = evaluation[f"{entry['hf_subset']} mrr@10"]
            assert entry["mrr_at_10"] == pytest.approx(own, abs=1e-9)
    with pytest.raises(CollectionError, match="has another text in another split: read one split alone"):
        open_source(small)
    with refused(CollectionError, "fr", "None", code="no-such-subset"):
        open_source(small, subset="fr")


def test_splits_with_other_texts_under_the_same_ids() -> None:
    small = task(subsets=("en", "de"), splits=("test", "dev"))
    measured = visir.evaluate(small, Toy(), split="test", measures="nDCG@10")
    alone = visir.evaluate(visir.open(small, split="test"), Toy(), split="test", measures="nDCG@10")
    assert measured.aggregates == alone.aggregates and measured.protocol == alone.protocol
    assert measured.protocol.split == "test"


def test_the_files_of_results(tmp_path: Path) -> None:
    small, model = task(), Toy()
    evaluation = visir.evaluate(visir.open(small), model, measures="mteb", split="test")
    file = evaluation.to_mteb(tmp_path, revision="v1")
    assert file == tmp_path / "results" / "visir__Toy" / "v1" / "VisirSmall.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = mteb.ResultCache(tmp_path).load_task_result("VisirSmall", "visir/Toy", "v1")
    assert loaded.scores["test"][0]["main_score"] == pytest.approx(evaluation["ndcg@10"], abs=1e-6)
    opened = visir.open(file)
    assert isinstance(opened, MtebResults)
    ours, theirs = opened.beside(evaluation)["t2t"]["hit@5"]
    assert ours == pytest.approx(theirs, abs=1e-9)
    with refused(VisirError, code="file-there-already"):
        evaluation.to_mteb(tmp_path, revision="v1")
    few = visir.evaluate(visir.open(small), model, measures=["R@1"])
    with refused(VisirError, "VisirSmall", "ndcg_at_10", code="main-score-not-measured"):
        few.to_mteb(tmp_path)


def test_a_file_that_mteb_wrote(tmp_path: Path) -> None:
    small, model = task(), Toy()
    result, _ = by_mteb(visir.mteb_model(model), small, tmp_path)
    result.to_disk(tmp_path / "VisirSmall.json")
    results = read_mteb(tmp_path / "VisirSmall.json")
    evaluation = visir.evaluate(open_source(small, split="test"), model, measures="mteb")
    for ours, theirs in results.beside(evaluation)["t2t"].values():
        assert ours == pytest.approx(theirs, abs=1.01e-5)


def test_what_the_task_carries() -> None:
    source = visir.open(task("i2i", own=True, ignore_identical_ids=True))
    assert isinstance(source, TaskFile)
    assert (source.name, source.tasks, source.ties) == ("VisirSmall", ("i2i",), "trec")
    assert source.excluded is not None and source.excluded.num_rows == 15
    assert visir.evaluate(source, Toy(), measures=["R@1"]).protocol.ties == "trec"
    assert visir.evaluate(source, Toy(), ties="id", measures=["R@1"]).protocol.ties == "id"


def test_a_model_for_other_tasks_of_mteb() -> None:
    model = visir.mteb_model(Toy(), name="me/toy", revision="3")
    assert isinstance(model, mteb.models.EncoderProtocol)
    assert (model.mteb_model_meta.name, model.mteb_model_meta.revision) == ("me/toy", "3")
    assert model.mteb_model_meta.modalities == ["image", "text"]
    batches = [{"text": ["a red boat", "a dog"]}, {"text": ["a red boat"]}]
    vectors = model.encode(batches, task_metadata=None, hf_split="test", hf_subset="default")
    assert vectors.shape == (3, 13)
    assert vectors[0].tolist() == vectors[2].tolist()
    assert model.similarity(vectors, vectors[:1]).shape == (3, 1)
    assert model.similarity_pairwise(vectors[:1], vectors[2:]).tolist() == pytest.approx([1.0])
    several = visir.mteb_model(late())
    assert isinstance(several, mteb.models.SearchProtocol) and not isinstance(several, mteb.models.EncoderProtocol)
    assert several.mteb_model_meta.model_type == ["late-interaction"]


def test_names_that_mteb_does_not_know() -> None:
    with refused(CollectionError, "NFCorpos", code="no-such-task", meant="NFCorpus"):
        visir.open("mteb:NFCorpos")
    with refused(CollectionError, "STS", code="not-a-retrieval-task"):
        visir.open(mteb.get_task("STSBenchmark"))
