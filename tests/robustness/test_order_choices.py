"""Choices of word order, made of a collection."""

import visir
from visir.robustness.perturb import order_choices

ORDERS = ("shuffle_trigrams", "shuffle_within_trigrams")


def test_each_picture_chooses_its_caption_among_other_orders() -> None:
    collection = visir.open("scenes:4?size=64")
    source = order_choices(collection, orders=ORDERS)
    task = source.task("i2t")
    text = dict(zip(collection.captions["id"].to_pylist(), collection.captions["text"].to_pylist(), strict=True))
    query = next(iter(text))
    assert task.pools is not None
    candidates = task.documents.select(task.pools.candidates(query))
    words = [sorted(str(entry).lower().rstrip(".").split()) for entry in candidates.texts or []]
    assert len(words) == 3 and len(set(candidates.texts.to_pylist())) == 3  # type: ignore[union-attr]
    assert task.judgements().to_dict()[query] == {f"{query}/caption": 1.0}
    assert task.documents.select([f"{query}/caption"]).texts.to_pylist() == [text[query]]  # type: ignore[union-attr]
    assert task.ties == "pessimistic" and task.labels is not None
    assert task.labels["image"].to_pylist() == collection.captions["image_id"].to_pylist()


def test_the_same_seed_gives_the_same_choices() -> None:
    first, again = (order_choices("scenes:4?size=64", orders=ORDERS, seed=3).fingerprint for _ in range(2))
    assert first == again != order_choices("scenes:4?size=64", orders=ORDERS, seed=4).fingerprint


def test_a_blind_system_knows_the_right_order() -> None:
    source = order_choices("scenes:20?size=64&seed=1", orders=ORDERS)
    assert visir.evaluate(source, "blind:scenes:100?size=64")["all_first"] > 0.6
