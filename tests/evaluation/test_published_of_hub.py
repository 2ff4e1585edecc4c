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
