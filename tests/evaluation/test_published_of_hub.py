"""Published values of the Hub: cards and `.eval_results` by strangers, read as data; our own in `test_export.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

import visir
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.published import load

MTEB = """---
license: mit
model-index:
- name: a-model
  results:
  - task:
      type: Retrieval
    dataset:
      type: mteb/nfcorpus
      name: MTEB NFCorpus
      config: default
      split: test
    metrics:
    - type: ndcg_at_10
      value: 34.521
    - type: map_at_100
      value: 15.2
    - type: main_score
      value: 34.521
    - type: mrr_at_10
      value: nothing
  - task:
      type: Retrieval
    dataset:
      type: nlphuji/flickr30k
      name: Flickr30k
      config: t2i
      split: test
    metrics:
    - {type: recall_at_1, name: R@1, value: 58.06}
    - {type: recall_at_1, name: R@1, value: 58.07}
    - {type: recall_at_5, name: R@5, value: true}
---
# A model
"""
ENTRIES = """- dataset: {id: me/flickr, task_id: t2i}
  value: 30.42
  notes: 'R@1 is hit@1; 95 % interval 28.4 … 32.5; queries: 5,000 captions; visir 0.2.0, protocol 0123456789ab'
- dataset: {id: cais/hle, task_id: default}
  value: 20.9
- dataset: {id: cais/hle}
  value: 1
- text
"""


def test_a_card_of_mteb(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(MTEB)
    table = load(tmp_path)
    assert table.systems == ("a-model",) and table.collections == ("MTEB NFCorpus", "Flickr30k")
    assert table.row(collection="MTEB NFCorpus").values == {"default": {"ndcg@10": 34.521, "map@100": 15.2}}
    assert table.row(collection="Flickr30k").values == {"t2i": {"R@1": 58.06}}
    assert table.decimals == 3
    counts = [int(note.split()[0]) for note in table.notes]
    assert counts == [1, 2, 1]  # main_score; "nothing" and true; R@1 once more
    assert load(tmp_path / "README.md").rows == table.rows


def test_results_without_a_card(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / ".eval_results").mkdir(parents=True)
    (folder / ".eval_results" / "flickr.yaml").write_text(ENTRIES, encoding="utf-8")
    table = load(folder)
    assert [(row.system, row.collection, row.values) for row in table.rows] == [
        ("model", "me/flickr", {"t2i": {"R@1": 30.42}})
    ]
    assert [int(note.split()[0]) for note in table.notes] == [1, 2]  # no name; another form
    assert load(folder / ".eval_results" / "flickr.yaml").row().values == table.row().values


def test_explained_from_a_folder_of_the_hub(tmp_path: Path) -> None:
    run = {"q1": {"a": 2, "b": 1}, "q2": {"b": 2, "a": 1}, "q3": {"a": 2, "b": 1}}
    pictures = visir.records.Collection.build(
        "pictures",
        images={"id": ["a", "b"]},
        captions={"id": ["q1", "q2", "q3"], "text": ["x", "y", "z"], "image_id": ["a", "a", "b"]},
    )
    evaluation = visir.evaluate(pictures, {"t2i": run}, tasks="t2i", measures=["R@1"])
    assert evaluation["t2i R@1"] == pytest.approx(1 / 3)
    (tmp_path / "own.yaml").write_text(ENTRIES.replace("30.42", "33.3333"), encoding="utf-8")
    explanation = visir.explain(evaluation, tmp_path / "own.yaml")
    assert explanation.decimals == 4 and str(explanation.best.reading) == "the protocol of the result"


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch made']",
        "- dataset: {id: a/b, task_id: t}\n  value: !!python/name:os.system",
        "[" * 5000,
        "a: [b",
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "results.yaml"
    file.write_text(text)
    with refused(ConfigurationError, code="hub-not-yaml"):
        load(file)
    assert not (tmp_path / "made").exists()


def test_many_aliases_take_no_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "README.md").write_text("---\n" + "\n".join([*lines, "model-index: *a11"]) + "\n---\n")
    with refused(VisirError, code="no-values-of-hub"):
        load(tmp_path)


def test_a_file_of_megabytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "results.yaml").write_text("- x\n" * 600_000)
    with refused(ConfigurationError, code="hub-too-large"):
        load(tmp_path / "results.yaml")


def test_files_of_the_cache_of_the_hub_are_links(tmp_path: Path) -> None:
    blob, snapshot = tmp_path / "blobs" / "0123", tmp_path / "snapshots" / "abcd"
    for path in (blob, snapshot / "README.md"):
        path.parent.mkdir(parents=True)
    blob.write_text(MTEB)
    (snapshot / "README.md").symlink_to(blob)
    assert load(snapshot).systems == ("a-model",)


def _card(tmp_path: Path, *results: str) -> Path:
    """A card with results: "dataset; task; metrics", each a flow mapping of YAML."""
    lines = ["---", "model-index:", "- name: a-model", "  results:"]
    for result in results:
        dataset, task, metrics = result.split("; ")
        lines += [f"  - dataset: {dataset}", f"    task: {task}", f"    metrics: {metrics}"]
    (tmp_path / "README.md").write_text("\n".join([*lines, "---", ""]))
    return tmp_path / "README.md"


FLICKR, TASK = "{name: Flickr30k, type: nlphuji/flickr30k}", "{type: retrieval, name: Text to image}"


def test_data_sets_of_one_name_stay_apart(tmp_path: Path) -> None:
    card = _card(
        tmp_path,
        f"{FLICKR}; {{type: retrieval, name: Image to text}}; [{{type: recall, name: R@1, value: 88}}]",
        f"{FLICKR}; {TASK}; [{{type: recall, name: R@1, value: 68}}]",
        "{name: Flickr30k, type: other/flickr30k-cn}; {type: retrieval, name: Text to image}; "
        "[{type: recall, name: R@1, value: 68.7}, {type: recall, name: R@5, value: 90.1}]",
    )
    assert {row.collection: row.values for row in load(card).rows} == {
        "Flickr30k, nlphuji/flickr30k": {"i2t": {"R@1": 88}, "t2i": {"R@1": 68}},
        "Flickr30k, other/flickr30k-cn": {"t2i": {"R@1": 68.7, "R@5": 90.1}},
    }


@pytest.mark.parametrize("key", ["revision", "config", "split"])
def test_parts_of_a_data_set_stay_apart(key: str, tmp_path: Path) -> None:
    results = [f"{{name: F, {key}: {part}}}; {TASK}; [{{type: R@1, value: {value}}}]" for part, value in
               (("one", 20), ("two", 30))]  # fmt: skip
    assert {row.collection: row.values["t2i"]["R@1"] for row in load(_card(tmp_path, *results)).rows} == {
        "F, one": 20,
        "F, two": 30,
    }


def test_tasks_of_a_data_set_stay_apart(tmp_path: Path) -> None:
    metrics = "[{type: R@1, value: 20}]"
    results = [f"{FLICKR}; {{type: retrieval, name: {name} text-to-image retrieval}}; {metrics}" for name in
               ("Zero-shot", "Fine-tuned")]  # fmt: skip
    assert load(_card(tmp_path, *results)).collections == (
        "Flickr30k, zero shot retrieval",
        "Flickr30k, fine tuned retrieval",
    )


@pytest.mark.parametrize("value", ["-3", "101", "750.5", "1e300", "1.0e+300", "9" * 400, ".nan", ".inf"])
def test_values_that_cannot_be_are_counted(value: str, tmp_path: Path) -> None:
    metrics = f"[{{type: R@1, value: {value}}}, {{type: R@5, value: 80}}]"
    table = load(_card(tmp_path, f"{FLICKR}; {TASK}; {metrics}"))
    assert table.row().values == {"t2i": {"R@5": 80}}
    assert [int(note.split()[0]) for note in table.notes] == [1]


def test_a_rank_may_be_above_100(tmp_path: Path) -> None:
    table = load(_card(tmp_path, f"{FLICKR}; {TASK}; [{{type: mean_rank, value: 130}}, {{type: rsum, value: 480.5}}]"))
    assert table.row().values == {"t2i": {"mean_rank": 130, "rsum": 480.5}}


def test_shares_of_two_units_are_left_out(tmp_path: Path) -> None:
    mixed = "[{type: R@1, value: 0.58}, {type: R@5, value: 80.1}, {type: mrr, value: 70}]"
    weak = "[{type: R@1, value: 0.58}, {type: R@5, value: 2.9}, {type: R@10, value: 5.6}]"
    table = load(_card(tmp_path, f"{FLICKR}; {TASK}; {mixed}", f"{{name: COCO}}; {TASK}; {weak}"))
    assert table.row(collection="Flickr30k").values == {"t2i": {"mrr": 70}}
    assert table.row(collection="COCO").values == {"t2i": {"R@1": 0.58, "R@5": 2.9, "R@10": 5.6}}
    assert [note.split()[0] for note in table.notes] == ["2"] and "mix" in table.notes[0]


@pytest.mark.parametrize(
    ("metric", "task", "label"),
    [
        ("type: recall, name: t2i R@1", "t2i", "R@1"),
        ("type: text_to_image_recall@1", "t2i", "R@1"),
        ("type: image_retrieval_recall@1", "t2i", "R@1"),
        ("type: text_retrieval_recall@1", "i2t", "R@1"),
        ("type: Image-to-text R@5", "i2t", "R@5"),
        ("type: recall_at_1", "Retrieval", "recall@1"),
        ("type: cosine_accuracy@1, name: Cosine Accuracy@1", "Retrieval", "hit@1"),
        ("type: cosine_ndcg@10, name: Cosine Ndcg@10", "Retrieval", "ndcg@10"),
    ],
)
def test_usual_names_are_read(metric: str, task: str, label: str, tmp_path: Path) -> None:
    table = load(_card(tmp_path, f"{FLICKR}; {{type: Retrieval}}; [{{{metric}, value: 37.8}}]"))
    assert table.row().values == {task: {label: 37.8}}
    assert any("share of queries only where" in note for note in table.notes) == (label == "recall@1")


def test_the_caller_says_the_direction_of_a_task(tmp_path: Path) -> None:
    pictures = visir.records.Collection.build(
        "pictures", images={"id": ["a", "b"]}, captions={"id": ["q1", "q2"], "text": ["x", "y"], "image_id": ["a", "b"]}
    )
    run = {"q1": {"a": 2, "b": 1}, "q2": {"a": 2, "b": 1}}
    evaluation = visir.evaluate(pictures, {"t2i": run}, tasks="t2i", measures=["R@1"])
    card = _card(tmp_path, f"{FLICKR}; {{type: Retrieval}}; [{{type: R@1, value: 50.0}}]")
    with pytest.raises(VisirError, match="nothing is published") as fault:
        visir.explain(evaluation, card)
    assert "Retrieval; --direction t2i" in fault.value.hint
    assert visir.explain(evaluation, card, direction="t2i").best.fits


def test_what_is_not_on_the_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(VisirError, match="not fetched") as fault:
        load("openai/clip-x")
    assert "hf download openai/clip-x README.md --local-dir DIR" in fault.value.hint
    with refused(VisirError, "README.md", code="no-card-in-folder"):
        load(tmp_path)


@pytest.mark.parametrize("value", [1e300, -3.0, float("nan")])
def test_digits_of_no_share_are_refused(value: float) -> None:
    with refused(ConfigurationError, "between 0 and 100"):
        visir.denominators(visir.evaluation.published.PublishedRow("a", {"t2i": {"R@1": value}}))
