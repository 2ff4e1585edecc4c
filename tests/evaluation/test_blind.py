"""The blind baseline: language models, and the system that chooses without looking."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import visir
from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.language import NgramModel, language_model
from visir.evaluation.systems.blind import BlindSystem
from visir.records import Items, Pools, Qrels, Task

TEXTS = ["a red boat", "a red car", "a blue car", "the red car", "a boat", "the blue boat"]


def choices() -> Task:
    queries = Items.of_texts({"q1": "x", "q2": "y"}, title="queries")
    documents = Items.of_texts({"1": "a red car", "2": "car red a", "3": "a boat", "4": "boat a"}, title="captions")
    pools = Pools.of(["q1", "q1", "q2", "q2"], ["1", "2", "3", "4"])
    qrels = {"links": Qrels.of(["q1", "q2"], ["1", "4"])}
    return Task("choice", queries, documents, qrels, pools, ties="pessimistic", measures=("all_first",))


def test_probabilities_of_every_context_sum_to_one() -> None:
    model = NgramModel.fit(TEXTS)
    context = [*sorted(model.vocabulary), "<s>"]
    for first, second in itertools.product(context, repeat=2):
        total = sum(model.probability(first, second, word) for word in model.vocabulary)
        assert total == pytest.approx(1.0)


def test_kneser_and_ney_by_hand() -> None:
    """Two sentences "a b", two "a c". All trigrams: ssa 4→4, sab 2, sac 2, ab/ 2, ac/ 2: none seen once."""
    model = NgramModel.fit(["a b", "a b", "a c", "a c"])
    # Distinct contexts: bigrams sa 1, ab 1, ac 1, b/ 1, c/ 1; unigrams a 1, b 1, c 1, / 2; discounts .5, 1, 3/5.
    uniform = 1 / 5  # a, b, c, the end, the unknown word
    unigram = (1 - 0.6) / 5 + 0.6 * 4 / 5 * uniform
    bigram = 0.0 + 1.0 * 2 / 2 * unigram  # after a: b and c, once each, all discounted
    trigram = (2 - 0.5) / 4 + 0.5 * 2 / 4 * bigram
    assert model.probability("<s>", "a", "b") == pytest.approx(trigram)
    assert model.log_likelihoods(["a b"])[0] == pytest.approx(
        np.mean([math.log(model.probability(*place)) for place in (("<s>", "<s>", "a"), ("<s>", "a", "b"),
                                                                   ("a", "b", "</s>"))])
    )  # fmt: skip


def test_it_chooses_without_looking() -> None:
    evaluation = visir.evaluate(choices(), BlindSystem(NgramModel.fit(TEXTS)))
    assert evaluation.values("choice", "all_first").tolist() == [1.0, 0.0]
    assert evaluation.system == "blind (3-grams)"
    assert "candidate alone" in evaluation.protocol.similarity
    other = visir.evaluate(choices(), {"q1": {"1": 1.0, "2": 0.0}, "q2": {"3": 0.0, "4": 1.0}})
    comparison = visir.compare(evaluation, other)
    assert comparison[comparison.systems[1], "all_first"].difference == 0.5


def test_equal_texts_tie_against_the_system() -> None:
    task = choices()
    same = Items.of_texts(dict.fromkeys("1234", "a boat"), title="captions")
    tied = Task(task.name, task.queries, same, task.qrels, task.pools, ties=task.ties, measures=task.measures)
    assert visir.evaluate(tied, BlindSystem(NgramModel.fit(TEXTS)))["all_first"] == 0.0


def test_names_of_language_models(tmp_path: Path) -> None:
    evaluation = visir.evaluate(choices(), "blind:scenes:30?size=64")
    assert evaluation.system.startswith("blind (3-grams of")
    with refused(ConfigurationError, code="no-captions-language-model"):
        language_model(_task_folder(tmp_path))


def test_a_task_without_pools_is_refused() -> None:
    task = choices()
    whole = Task(task.name, task.queries, task.documents, task.qrels)
    with pytest.raises(ConfigurationError, match="has no pools"):
        visir.evaluate(whole, BlindSystem(NgramModel.fit(TEXTS)))


def test_a_causal_language_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<|endoftext|>": 0, "a": 1, "red": 2, "boat": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<|endoftext|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(tmp_path / "gpt")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=4, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "gpt")
    values = language_model(tmp_path / "gpt").log_likelihoods(["a red boat", "a"])
    with torch.inference_mode():
        logs = torch.log_softmax(model(torch.tensor([[0, 1, 2, 3]])).logits[0].double(), -1)
    expected = float((logs[0, 1] + logs[1, 2] + logs[2, 3]) / 3)
    assert values[0] == pytest.approx(expected, abs=1e-5)
    assert values[1] == pytest.approx(float(logs[0, 1]), abs=1e-5)


def _task_folder(folder: Path) -> Path:
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "a"}')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "a"}')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    return folder
