"""Tasks of any kind: texts that search texts, pools of candidates, text and image in one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import visir
from refusals import refused
from visir.encoders.base import Encoder
from visir.errors import CollectionError, ConfigurationError, EmbeddingError, ProtocolError
from visir.evaluation.results import load_evaluation, save
from visir.evaluation.systems import EncoderSystem, RunSystem, System, VectorSystem
from visir.records import Embeddings, EncoderCard, Gallery, Items, Pools, Qrels, Run, Task, task_name
from visir.retrieval.exact import SearchResult
from visir.retrieval.pools import within_pools
from visir.retrieval.ranks import ranks_of

CARD = EncoderCard("by hand", "test", revision="1")


class Words(Encoder):
    """Counts five words."""

    card = EncoderCard("words", "test", revision="1")
    dimension = 5
    modalities = frozenset({"text"})

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        words = ("red", "boat", "dogs", "dog", "cat")
        return np.array([[text.split().count(word) for word in words] for text in texts], np.float32)


def vectors(modality: str, rows: dict[str, list[float]]) -> Embeddings:
    return Embeddings(modality, list(rows), np.array(list(rows.values()), np.float32), CARD)  # type: ignore[arg-type]


def four_texts(pools: Pools | None = None, **fields: object) -> Task:
    """Two queries and four documents; q1 is right with d1, q2 with d3 and d4."""
    queries = Items.of_texts({"q1": "red boat", "q2": "two dogs"}, title="questions")
    documents = Items.of_texts({"d1": "boat", "d2": "cat", "d3": "dog", "d4": "dogs"}, title="passages")
    qrels = Qrels.of(["q1", "q2", "q2"], ["d1", "d3", "d4"], name="by hand")
    return Task("t2t", queries, documents, {"by hand": qrels}, pools, source="four texts", **fields)  # type: ignore[arg-type]


SIDES = {
    "query": vectors("text", {"q1": [1, 0], "q2": [0, 1]}),
    "document": vectors("text", {"d1": [0.6, 0.8], "d2": [0.8, 0.6], "d3": [0, 1], "d4": [1, 0]}),
}


def test_texts_search_texts() -> None:
    # q1: d4 1.0, d2 .8, d1 .6, d3 0: its positive d1 stands third. q2: d3 1.0, d1 .8, d2 .6, d4 0: first and fourth.
    evaluation = visir.evaluate(four_texts(), SIDES, measures=["hit@1", "recall@3", "mrr"])
    assert [name for name, _ in evaluation.runs["t2t"].answer("q1")] == ["d4", "d2", "d1", "d3"]
    assert [score for _, score in evaluation.runs["t2t"].answer("q1")] == pytest.approx([1, 0.8, 0.6, 0])
    assert evaluation.result.aggregates["t2t"] == {
        "hit@1": 0.5, "recall@3": 0.75, "mrr": pytest.approx((1 / 3 + 1) / 2)
    }  # fmt: skip
    protocol = evaluation.result.protocol
    assert protocol.relevance == "by hand" and protocol.collection == "four texts" and protocol.split == "all"
    assert protocol.galleries["t2t"].startswith("4 passages · all passages · ")
    assert protocol.queries["t2t"].startswith("2 questions · ")


def test_a_pair_of_one_modality_is_queries_and_documents() -> None:
    pair = (SIDES["query"], SIDES["document"])
    expected = visir.evaluate(four_texts(), SIDES).result
    assert visir.evaluate(four_texts(), pair).result.aggregates == expected.aggregates
    assert visir.evaluate([four_texts()], VectorSystem(SIDES)).result.aggregates == expected.aggregates


def test_pools_are_the_candidates_of_each_query() -> None:
    # q1 chooses among d1 (.6) and d2 (.8): wrong. q2 among d3 (1) and d2 (.6): right.
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["d1", "d2", "d2", "d3"])
    evaluation = visir.evaluate(four_texts(pools), SIDES, measures=["hit@1", "hit@2"])
    assert evaluation.result.per_query["t2t"]["hit@1"].to_pylist() == [0.0, 1.0]
    assert evaluation.result.mean("t2t", "hit@2") == 1.0
    assert evaluation.runs["t2t"].answer("q1") == [("d2", pytest.approx(0.8)), ("d1", pytest.approx(0.6))]
    line = evaluation.result.protocol.galleries["t2t"]
    assert line == f"2 candidates per query · 4 passages · {pools.fingerprint[:12]}"


def test_a_pair_has_the_same_score_in_a_pool_as_in_a_search() -> None:
    rng = np.random.default_rng(0)
    queries = {f"q{n}": rng.standard_normal(24).tolist() for n in range(20)}
    documents = {f"d{n:02d}": rng.standard_normal(24).tolist() for n in range(30)}
    sides = {"query": vectors("text", queries), "document": vectors("text", documents)}
    items = [Items.of_texts(dict.fromkeys(side, "x")) for side in (queries, documents)]
    qrels = Qrels.of(list(queries), ["d01"] * 20)
    pools = Pools.of(np.repeat(list(queries), 3), [f"d{n:02d}" for _ in queries for n in (1, 7, 20)])
    whole = visir.evaluate(Task("t2t", *items, {"q": qrels}), sides).runs["t2t"]
    pooled = visir.evaluate(Task("t2t", *items, {"q": qrels}, pools), sides).runs["t2t"]
    for query in queries:
        scores = dict(whole.answer(query))
        assert dict(pooled.answer(query)) == {document: scores[document] for document in ("d01", "d07", "d20")}


def test_ties_within_a_pool_count_against_the_system_when_asked() -> None:
    equal = {"query": SIDES["query"], "document": vectors("text", {name: [1, 1] for name in ("d1", "d2", "d3", "d4")})}
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["d1", "d2", "d2", "d3"])
    by_id = visir.evaluate(four_texts(pools), equal, measures=["hit@1"])
    against = visir.evaluate(four_texts(pools), equal, measures=["hit@1"], ties="pessimistic")
    assert by_id.result.mean("t2t", "hit@1") == 0.5 and against.result.mean("t2t", "hit@1") == 0.0


def test_a_run_answers_a_task_with_pools() -> None:
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["d1", "d2", "d2", "d3"])
    run = visir.evaluate(four_texts(), SIDES).runs["t2t"]
    result = visir.evaluate(four_texts(pools), run, measures=["hit@1", "mean_rank"]).result
    assert result.per_query["t2t"]["hit@1"].to_pylist() == [0.0, 1.0]
    assert "t2t: left out: 4 answers of the run, outside the candidates of the query" in result.notes
    # Complete within the pools, so as exact as a search: the two protocols are one.
    searched = visir.evaluate(four_texts(pools), SIDES, measures=["hit@1", "mean_rank"]).result
    assert result.protocol.depth is None and result.protocol.fingerprint == searched.protocol.fingerprint
    assert result.per_query["t2t"].equals(searched.per_query["t2t"])
    assert not any("deep" in note for note in searched.notes)


def test_an_encoder_answers_texts_with_texts(tmp_path: Path) -> None:
    encoder = Words()
    evaluation = visir.evaluate(four_texts(), encoder, store=visir.encoders.Store(tmp_path), measures=["hit@1"])
    # "red boat" shares "boat" with d1; "two dogs" shares "dogs" with d4.
    assert evaluation.result.mean("t2t", "hit@1") == 1.0


def test_a_result_of_any_task_is_saved_and_read(tmp_path: Path) -> None:
    evaluation = visir.evaluate(four_texts(), SIDES)
    save(evaluation, tmp_path / "result")
    read = load_evaluation(tmp_path / "result")
    assert read.result.aggregates == evaluation.result.aggregates and list(read.runs) == ["t2t"]
    assert read.qrels["t2t"].name == "by hand"
    again = visir.evaluate(four_texts(), RunSystem(read.runs)).result
    assert again.aggregates == evaluation.result.aggregates


@dataclass(frozen=True)
class TwoTasks:
    """A source of somebody else: two tasks over the same texts, and two splits."""

    name: str = "two tasks"
    tasks: tuple[str, ...] = ("t2t", "back")
    splits: tuple[str, ...] = ("test",)

    def task(self, name: str) -> Task:
        task = four_texts(split="test")
        if name == "t2t":
            return task
        reverse = Qrels.of(["d1", "d3"], ["q1", "q2"])
        return Task("back", task.documents, task.queries, {"reverse": reverse}, source=self.name)

    def split(self, name: str | None) -> TwoTasks:
        return self


def test_any_source_of_tasks_is_evaluated(tmp_path: Path) -> None:
    encoder = Words()
    store = visir.encoders.Store(tmp_path)
    result = visir.evaluate(TwoTasks(), encoder, store=store, measures=["hit@1"]).result
    assert list(result.per_query) == ["t2t", "back"] and result.protocol.relevance == "by hand / reverse"
    only = visir.evaluate(TwoTasks(), encoder, ["back"], store=store, measures=["hit@1"]).result
    assert list(only.per_query) == ["back"]
    assert only.per_query["back"].equals(result.per_query["back"])


def test_faults_say_what_to_do() -> None:
    with refused(ConfigurationError, "bakc", code="unknown-task"):
        visir.evaluate(TwoTasks(), SIDES, ["bakc"])
    with pytest.raises(ConfigurationError, match="captions goes with collections of images and captions only"):
        visir.evaluate(four_texts(), SIDES, captions="first")
    with refused(CollectionError, "links", "t2t", code="unknown-relevance-task"):
        visir.evaluate(four_texts(), SIDES, relevance="links")
    with refused(CollectionError, "pools", "document", "d9", code="name-not-task", hint=False):
        four_texts(Pools.of(["q1"], ["d9"]))
    with pytest.raises(EmbeddingError, match="no text vector by by hand for 1 id: 'd4'"):
        visir.evaluate(four_texts(), {**SIDES, "document": SIDES["document"].select(["d1", "d2", "d3"])})
    with refused(ConfigurationError, code="goes-collections", hint=False):
        visir.evaluate(four_texts(), SIDES, measures=["dcg_cm@1"], estimator="self")


def test_items_and_names() -> None:
    items = Items.of_texts({"b": "2", "a": "1"}, title="texts", name="mine")
    assert items.select(["a"]).texts.to_pylist() == ["1"]  # type: ignore[union-attr]
    assert items.fingerprint == items.select(["a", "b"]).fingerprint
    both = Items(pa.array(["x"]), pa.array(["t"]), pa.table({"path": ["p.jpg"], "archive": [None]}), title="pages")
    assert both.modality == "text+image" and both.images.column_names == ["id", "path", "archive"]
    with refused(CollectionError, "x", code="ids-repeat", hint=False):
        Items(pa.array(["x", "x"]), pa.array(["1", "2"]))
    with refused(CollectionError, code="neither-texts-nor-images", hint=False):
        Items(pa.array(["x"]))
    with refused(CollectionError, "mine", "texts", "z", code="unknown-ids", hint=False):
        items.select(["z"])
    assert task_name("image", "image") == "i2i" and task_name("text", "text+image") == "t2it"


def test_a_system_that_is_evaluated_twice_gives_the_same_notes_twice() -> None:
    runs = RunSystem({"t2t": visir.evaluate(four_texts(), SIDES, depth=1).runs["t2t"]})
    first, second = (visir.evaluate(four_texts(), runs, measures=["hit@1"]).result for _ in range(2))
    assert first.notes == second.notes
    assert "captions" not in dict(first.protocol.card())


class Answers(System):
    """A system of somebody else: it answers what it is made with."""

    def __init__(self, rows: list[tuple[str, str, float]]) -> None:
        self.rows = rows  # and it does not call System.__init__

    def search(self, tasks: Sequence[Task], *, depth: int, ties: str) -> list[SearchResult]:
        results = []
        for task in tasks:
            run = Run.ranked("own", task.name, *zip(*self.rows, strict=True), task.gallery)
            results.append(SearchResult(run, ranks_of(run, task.judgements(), ties)))  # type: ignore[arg-type]
        return results


def test_a_system_of_somebody_else_is_checked() -> None:
    right = [("q1", "d1", 2.0), ("q1", "d2", 1.0), ("q2", "d3", 1.0)]
    result = visir.evaluate(four_texts(), Answers(right), measures=["hit@1"]).result
    assert result.system == "Answers" and result.mean("t2t", "hit@1") == 1.0 and result.protocol.depth == 2
    few = visir.evaluate(four_texts(), Answers(right[:1]), measures=["hit@1"]).result
    assert "t2t: 1 of 2 queries are not answered; they count as failed" in few.notes
    with refused(ProtocolError, "1 document", code="not-gallery"):
        visir.evaluate(four_texts(), Answers([("q1", "zz", 1.0)]), measures=["hit@1"])
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["d1", "d2", "d2", "d3"])
    with refused(ProtocolError, "1 answer", code="outside-candidates-query"):
        visir.evaluate(four_texts(pools), Answers([*right, ("q2", "d4", 0.5)]), measures=["hit@1"])


def test_a_query_that_is_a_document_too_is_noted() -> None:
    items = Items.of_texts({"a": "1", "b": "2"}, title="texts")
    vectors_of_both = vectors("text", {"a": [1, 0], "b": [0.8, 0.6]})
    task = Task("t2t", items, items, {"q": Qrels.of(["a"], ["b"])}, source="the same")
    notes = visir.evaluate(task, (vectors_of_both, vectors_of_both), measures=["hit@1"]).result.notes
    assert any(note.startswith("t2t: 1 query has the id of a document") for note in notes)


def test_a_run_that_was_cut_before_its_candidates_end_says_so() -> None:
    # q1 answers d4 and d2, of which d2 is a candidate; its other candidate d1 was cut away.
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["d1", "d2", "d2", "d3"])
    run = visir.evaluate(four_texts(), SIDES, depth=2).runs["t2t"]
    result = visir.evaluate(four_texts(pools), run).result
    assert result.protocol.depth == 1 and "hit@5" not in result.aggregates["t2t"]


def test_many_pools_do_not_overflow() -> None:
    # 50,000 queries times 50,000 candidates exceed 32 bits.
    n = 50_000
    ids = np.arange(n).astype(str)
    pools = Pools.of(np.repeat(ids, 2), np.stack([ids, np.roll(ids, 1)], axis=1).ravel())
    gallery = Gallery.of("text", ids, "all")
    run = Run.ranked("all right", "t2t", ids, ids, np.ones(n), gallery)
    assert (np.diff(within_pools(run, pools).offsets) == 1).all()


def test_roles_are_kept_apart() -> None:
    with refused(ConfigurationError, "documents", "query", code="vectors-under-keys"):
        visir.evaluate(four_texts(), {"documents": SIDES["document"], "query": SIDES["query"]})
    system = VectorSystem(SIDES)
    task = four_texts()
    system.prepare([task])
    assert not len(system.broken(task.queries)) and not len(system.broken(task.documents))
    assert system.by_modality()["text"] is SIDES["query"]


def test_what_was_done_to_queries_is_in_the_protocol() -> None:
    changed = replace(four_texts(), condition="upper")
    protocol = visir.evaluate(changed, SIDES).result.protocol
    assert protocol.perturbation == "t2t: upper"
    assert protocol.differences(visir.evaluate(four_texts(), SIDES).result.protocol)["perturbation"]


def test_several_tasks_name_all_their_sources() -> None:
    other = replace(four_texts(source_fingerprint="b"), name="again", source="others", split="dev")
    protocol = visir.evaluate([four_texts(source_fingerprint="a"), other], SIDES).result.protocol
    assert protocol.collection == "four texts + others" and protocol.split == "all + dev"
    assert protocol.collection_fingerprint == "a + b"


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "a\0b", ".hidden", "x" * 300])
def test_names_that_no_file_can_have(name: str) -> None:
    with refused(CollectionError, code="cannot-name-task"):
        replace(four_texts(), name=name)
    with refused(CollectionError, code="collection-no-judgements"):
        replace(four_texts(), qrels={})


def test_queries_without_a_pool_and_broken_candidates() -> None:
    pools = Pools.of(["q1", "q1"], ["d1", "d2"])
    result = visir.evaluate(four_texts(pools), SIDES, measures=["hit@1"]).result
    assert "t2t: 1 judged queries have no pool; they count as failed" in result.notes
    left = pools.without(pa.array(["nobody"]), pa.array(["d2"]))
    assert left.candidates("q1") == ["d1"]


def test_an_encoder_that_is_evaluated_twice_holds_the_vectors_of_the_last_task(tmp_path: Path) -> None:
    system = EncoderSystem(Words(), store=visir.encoders.Store(tmp_path))
    first = visir.evaluate(four_texts(), system, measures=["hit@1"]).result
    queries = Items.of_texts({"q1": "dogs", "q2": "boat"}, title="questions")
    other = visir.evaluate(replace(four_texts(), queries=queries), system, measures=["hit@1"]).result
    assert (first.mean("t2t", "hit@1"), other.mean("t2t", "hit@1")) == (1.0, 0.0)
    assert len(system.by_modality()["text"]) == 2 and len(system.origins()) == 1


def test_blank_queries_are_counted() -> None:
    queries = Items.of_texts({"q1": "a dog", "q2": " ", "q3": ""}, title="texts")
    documents = Items.of_texts({"d1": "a dog", "d2": "a cat"}, title="texts")
    both = (vectors("text", {"q1": [1, 0], "q2": [0, 1], "q3": [1, 1]}), vectors("text", {"d1": [1, 0], "d2": [0, 1]}))

    def notes(judged: list[str]) -> tuple[str, ...]:
        qrels = {"q": Qrels.of(judged, ["d1"] * len(judged))}
        return visir.evaluate(Task("t2t", queries, documents, qrels, source="own"), both, measures=["hit@1"]).notes

    assert any(note.startswith("t2t: 1 query is blank") for note in notes(["q1", "q2"])), "q3 is not measured"
    assert not any("blank" in note for note in notes(["q1"]))
