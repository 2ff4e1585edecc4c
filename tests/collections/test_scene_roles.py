"""Scenes whose captions tell other facts: roles that rotate, and a world in which every fact is shared."""

from __future__ import annotations

from collections import Counter

import pytest

import visir
from visir.collections.scenes import scenes
from visir.collections.scenes.captions import ROLES, SHARED, facts_by_caption, plain_captions
from visir.collections.scenes.facts import FACTS, sample_scene
from visir.collections.scenes.languages import TELLS
from visir.errors import CollectionError


def role_of(roles: str, fact: str) -> str:
    count = sum(fact in names for names in facts_by_caption(roles))
    return {0: "irrelevant", 1: "specific", 5: "shared"}[count]


def test_over_the_rotations_every_fact_has_every_role() -> None:
    assert ROLES == ("0", "1", "2", "3", "4", "5", SHARED)
    assert facts_by_caption("0") == TELLS, "the usual roles"
    for fact in FACTS:
        counts = Counter(role_of(roles, fact.name) for roles in ROLES[:-1])
        assert counts["shared"] == 1 and counts["irrelevant"] in (1, 2) and counts.total() == 6, fact.name
        assert role_of(SHARED, fact.name) == "shared"
    for roles in ROLES[:-1]:
        assert Counter(role_of(roles, fact.name) for fact in FACTS) == {"shared": 3, "specific": 11, "irrelevant": 4}


@pytest.mark.parametrize("roles", ROLES)
def test_a_caption_changes_with_the_facts_that_it_tells_and_with_no_other(roles: str) -> None:
    for index in range(12):
        scene = sample_scene(0, index)
        before = plain_captions(scene, roles)
        for fact in FACTS:
            for value in fact.values:
                if value == getattr(scene, fact.name):
                    continue
                after = plain_captions(scene.with_fact(fact.name, value), roles)
                changed = [old.text != new.text for old, new in zip(before, after, strict=True)]
                assert changed == [fact.name in caption.tells for caption in before], (fact.name, value)


def test_a_collection_says_which_role_each_fact_has() -> None:
    collection = scenes(40, size=64, roles="5")
    assert collection.source.endswith("roles 5")
    fields = {
        name: collection.facts.schema.field(name).metadata for name in ("facing", "ground", "landmark", "subject")
    }
    assert {name: one[b"role"] for name, one in fields.items() if one} == {
        "facing": b"irrelevant",
        "ground": b"shared",
        "landmark": b"irrelevant",
        "subject": b"specific",
    }
    everything = visir.open("scenes:40?size=64&roles=shared")
    links = {(caption, image) for caption, image in zip(
        everything.captions["id"].to_pylist(), everything.captions["image_id"].to_pylist(), strict=True)}  # fmt: skip
    facts = {
        (row["caption_id"], row["image_id"]) for row in everything.judgements.to_pylist() if row["relevance"] == "facts"
    }
    assert facts == links, "a caption that tells everything is true of its own picture alone"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("roles=6", "roles '6'"),
        ("roles=2&language=de", "roles 2 are in English only, not de"),
        ("roles=2&length=long", "roles 2 and long captions exclude each other"),
        ("roles=shared&near_duplicates=0.2", "roles shared and near_duplicates exclude each other"),
        ("roles=2&task=choice", "roles does not apply to task=choice"),
    ],
)
def test_what_does_not_go_together_is_refused(options: str, fault: str) -> None:
    with pytest.raises(CollectionError, match=fault):
        visir.open(f"scenes:10?{options}")
