"""Perturbations that say the same in other words, and those that say something else."""

from __future__ import annotations

import pytest
from outcomes import outcomes

from visir.evaluation.stress.stress import names_of
from visir.evaluation.systems import System
from visir.robustness.perturb import perturb_texts
from visir.robustness.perturbations import names_in


def only(name: str, text: str) -> str:
    """What comes out where there is one possibility."""
    (text,) = outcomes(name, text, draws=20)
    return text


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("A brown dog chases a red ball.", "A red dog chases a brown ball."),
        ("An orange dog is beside a green fence .", "A green dog is beside an orange fence ."),
        ("A young boy watches an old man.", "An old boy watches a young man."),
        ("A small dog chases a large cow.", "A large dog chases a small cow."),
        ("A black and white dog jumps.", "A black and white dog jumps."),  # one thing has both
        ("A red dog and a blue dog run.", "A red dog and a blue dog run."),  # the same two dogs
        ("A young boy in a red shirt.", "A young boy in a red shirt."),  # shirts have no age
        ("Two dogs run.", "Two dogs run."),
        ("", ""),
    ],
)
def test_swap_attribute(text: str, changed: str) -> None:
    assert only("swap_attribute", text) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("A man sits on a bench.", "A bench sits on a man."),
        ("A boy wearing a red hat", "A red hat wearing a boy"),
        ("A dog is standing in front of the old house .", "The old house is standing in front of a dog ."),
        ("A dog next to a cat.", "A dog next to a cat."),  # it holds both ways
        ("A boy meets a girl.", "A boy meets a girl."),
        ("Two dogs sit on a bench.", "Two dogs sit on a bench."),  # "a bench sit" would be wrong
        ("Two dogs sitting on a bench.", "A bench sitting on two dogs."),
        ("A girl in red.", "A girl in red."),
    ],
)
def test_swap_relation(text: str, changed: str) -> None:
    assert only("swap_relation", text) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("A dog is running.", "A dog is not running."),
        ("A dog runs on the beach .", "A dog does not run on the beach ."),
        ("Two dogs are in the snow.", "Two dogs are not in the snow."),
        ("A dog running through water", "A dog not running through water"),
        ("Two dogs in the snow", "No dogs in the snow"),
        ("A dog is not running.", "A dog is not running."),  # it would become true
        ("A man without a shirt runs.", "A man without a shirt runs."),
    ],
)
def test_negation(text: str, changed: str) -> None:
    assert only("negation", text) == changed


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("A dog is running.", {"A dog runs.", "There is a dog running."}),
        ("Two dogs are running.", {"Two dogs run.", "There are two dogs running."}),
        ("A man is next to the couch.", {"A man is beside the couch.", "A man is next to the sofa."}),
        ("The dog sits on a rock.", {"The dog is sitting on a rock.", "On a rock, the dog sits."}),
    ],
)
def test_paraphrase(text: str, ways: set[str]) -> None:
    assert outcomes("paraphrase", text) == ways


def test_severity_counts_paraphrases() -> None:
    twice = outcomes("paraphrase", "A kid is next to the couch.", severity=2)
    assert "A child is beside the couch." in twice


def test_same_text_by_id_and_seed() -> None:
    text = "A brown dog chases a red ball on the green grass."
    for name in ("paraphrase", "negation", "swap_relation", "swap_attribute"):
        first = perturb_texts([text, "x", text], ["1", "2", "3"], name, seed=4).texts.to_pylist()
        again = perturb_texts([text, text], ["3", "1"], name, seed=4).texts.to_pylist()
        assert [first[0], first[2]] == again[::-1]


def test_a_study_of_brittleness_takes_those_that_damage() -> None:
    class Anything(System):
        name = "anything"

        def conditions(self, task: str) -> None:
            return None

        def search(self, *_: object, **__: object) -> None:
            raise NotImplementedError

    assert names_of(Anything(), None, [])["t2i"] == names_in("paper")
    assert names_of(Anything(), ["negation"], [])["t2i"] == ["negation"]
