"""Shards: whoever makes them, and however often they are killed, the whole is what one process makes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_toys import Means, photos
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from refusals import refused
from visir.encoders import Encoder, Store, encode, encode_detailed
from visir.encoders.encoding import alignment
from visir.encoders.shards import Shard, encode_shard, join_shards
from visir.errors import CollectionError, ConfigurationError, EmbeddingError, EncoderError, ImageError
from visir.records import Collection, Embeddings, EncoderCard, Modality
from visir.remote import RemoteFolder, UnreachableError
from visir.shortcuts import inject

FILES = ("vectors.npy", "ids.parquet")


def whole(folder: Path | None) -> dict[str, bytes]:
    assert folder is not None
    assert sorted(one.name for one in folder.iterdir()) == ["ids.parquet", "vectors.npy", "visir.json"]
    return {name: (folder / name).read_bytes() for name in FILES}


def make(store: Store, collection: Collection, side: Modality, count: int, **options: Any) -> None:
    for number in range(1, count + 1):
        encode_shard(Means(), collection.items(side), Shard(number, count), store=store, **options)


# -- where shards are cut


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 20))
def test_shards_cover_every_input_once_and_begin_where_batches_do(total: int, step: int, count: int) -> None:
    cut = [Shard(number, count).rows(total, step) for number in range(1, count + 1)]
    assert [row for rows in cut for row in rows] == list(range(total))
    assert all(rows.start % step == 0 for rows in cut if rows)
    steps = [-(-len(rows) // step) for rows in cut]
    assert max(steps) - min(steps) <= 1


def test_cuts_by_hand() -> None:
    # 10 inputs in batches of 4 are the steps 0–4, 4–8, 8–10: three steps on two shards, ⌊3/2⌋ = 1 to the first.
    assert [Shard(number, 2).rows(10, 4) for number in (1, 2)] == [range(4), range(4, 10)]
    assert Shard.of("3/16") == Shard(3, 16)
    for wrong in ("0/4", "5/4", "3", "3/0", "a/b", "-1/4", "1/100000"):
        with refused(ConfigurationError, code="no-such-part"):
            Shard.of(wrong)


# -- the whole is that of one process


@pytest.mark.parametrize(("side", "count"), product(("image", "text"), (1, 2, 3, 7)))
def test_shards_join_to_the_bytes_of_one_process(tmp_path: Path, side: Modality, count: int) -> None:
    collection, store = photos(tmp_path / "photos", 27, captions=3), Store(tmp_path / "shards")
    one = encode_detailed(Means(), collection.items(side), store=Store(tmp_path / "one"))
    make(store, collection, side, count)
    entry = join_shards(Means(), collection.items(side), store=store)
    assert whole(entry.folder) == whole(one.folder)
    card = Store(tmp_path / "one").find(store.key(Means().stored_card, collection.items(side))).card  # type: ignore[union-attr]
    assert entry.card | {"seconds": 0, "made": ""} == card | {"seconds": 0, "made": ""}
    again = Means()
    found = encode_detailed(again, collection.items(side), store=store)  # as if one process had made it
    assert again.seen == [] and found.computed == 0 and found.folder == entry.folder
    assert not list(store.root.rglob("*.npz"))  # what was joined is not kept twice


def test_a_model_in_batches_gives_the_same_bits(tmp_path: Path) -> None:
    """A network's last digits depend on what else is in a batch: shards make the very batches of one process."""
    import torch

    class Network(Means):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.Sequential(torch.nn.Linear(192, 257), torch.nn.GELU(), torch.nn.Linear(257, 31))
            self.dimension = 31

        def embed_images(self, batch: Any) -> Any:
            with torch.inference_mode():
                flat = torch.tensor(np.stack(batch).reshape(len(batch), -1), dtype=torch.float32)
                vectors: Any = self.layers(flat).numpy()
            return vectors

    collection, store = photos(tmp_path / "photos", 50), Store(tmp_path / "shards")
    one = encode_detailed(Network(), collection.items("image"), store=Store(tmp_path / "one"), batch_size=7)
    for number in (3, 1, 2):
        encode_shard(Network(), collection.items("image"), Shard(number, 3), store=store, batch_size=7)
    assert whole(join_shards(Network(), collection.items("image"), store=store).folder) == whole(one.folder)


def test_shortcuts_in_captions_and_pictures_stay_with_their_inputs(tmp_path: Path) -> None:
    class Sized(Means):
        def preprocess(self, image: Image.Image) -> Any:
            return np.asarray(image.resize((256, 256)))

    plain = photos(tmp_path / "photos", 11, captions=2)
    collection = inject(plain, "unique")
    for side in ("image", "text"):
        one = encode(Sized(), collection, side, store=Store(tmp_path / "one"))
        store = Store(tmp_path / "shards")
        for number in (1, 2):
            encode_shard(Sized(), collection.items(side), Shard(number, 2), store=store)
        join_shards(Sized(), collection.items(side), store=store)
        assert np.array_equal(encode(Sized(), collection, side, store=store).vectors, one.vectors)
        assert not np.array_equal(encode(Sized(), plain, side, store=store).vectors, one.vectors)


def test_of_a_head_over_an_encoder_the_encoder_is_divided(tmp_path: Path) -> None:
    class PretrainedTower(Means):
        def base_encoder(self, modality: Modality) -> Encoder:
            return Means()

        def project(self, modality: Modality, vectors: Any) -> Any:
            return (vectors / 2).astype(np.float32)

    collection, store = photos(tmp_path / "photos", 9), Store(tmp_path / "store")
    for number in (1, 2):
        encode_shard(PretrainedTower(weights="h"), collection.items("image"), Shard(number, 2), store=store)
    join_shards(PretrainedTower(weights="h"), collection.items("image"), store=store)
    under = Means()
    assert encode_detailed(under, collection.items("image"), store=store).computed == 0 and under.seen == []
    assert encode(PretrainedTower(weights="h"), collection, "image", store=store).vectors[4].tolist() == [
        2,
        4,
        6,
    ]  # (4, 8, 12) / 2


def test_broken_images_are_counted_over_all_shards(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 12), Store(tmp_path / "store")
    for row in (4, 5, 6, 7, 9):  # all of the second batch, one of the third
        (tmp_path / "photos" / f"p{row:03}.png").write_bytes(b"no")
    with refused(ImageError, hint="--skip-broken"):
        encode_shard(Means(), collection.items("image"), Shard(2, 3), store=store)
    make(store, collection, "image", 3, skip_broken=True)
    with refused(ImageError, "4", "12", code="images-broken"):
        encode_shard(Means(), collection.items("image"), Shard(2, 3), store=store)
    entry = join_shards(Means(), collection.items("image"), store=store)
    one = encode_detailed(Means(), collection.items("image"), store=Store(tmp_path / "one"), skip_broken=True)
    assert whole(entry.folder) == whole(one.folder)
    assert list(entry.broken) == ["p004", "p005", "p006", "p007", "p009"]


def test_an_image_that_can_be_read_by_now_is_encoded_in_a_finished_shard(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 8), Store(tmp_path / "store")
    path = tmp_path / "photos" / "p001.png"
    good, time = path.read_bytes(), path.stat().st_mtime_ns

    def write(data: bytes) -> None:  # of the same size and time: the same input, unreadable for a while
        path.write_bytes(data)
        os.utime(path, ns=(time, time))

    write(b"?" * len(good))
    first = encode_shard(Means(), collection.items("image"), Shard(1, 2), store=store, skip_broken=True)
    assert list(first.broken) == ["p001"]
    write(good)
    assert encode_shard(Means(), collection.items("image"), Shard(1, 2), store=store).computed == 4


def test_shards_of_queries_are_embedded_as_queries(tmp_path: Path) -> None:
    class OfRoles(Means):
        distinguishes_roles = True

        def embed_texts(self, texts: Any) -> Any:
            return super().embed_texts(texts) + (1 if self._role == "query" else 0)

    texts = photos(tmp_path / "photos", 10).items("text")
    encoder, store = OfRoles(), Store(tmp_path / "store")
    encoder.card = Means().card
    for number in (1, 2):
        encode_shard(encoder, texts, Shard(number, 2), "query", store=store)
    joined = join_shards(encoder, texts, "query", store=store)
    one = encode_detailed(encoder, texts, "query", store=Store(tmp_path / "one"))
    assert whole(joined.folder) == whole(one.folder)


# -- restarts


def test_a_finished_shard_is_skipped_and_a_killed_one_goes_on(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 20), Store(tmp_path / "store")

    class Dies(Means):
        stored_card = Means().stored_card  # as if its code were that of the sound one

        def embed_images(self, batch: Any) -> Any:
            if len(self.seen) == 2:
                raise KeyboardInterrupt
            return super().embed_images(batch)

    first = encode_shard(Means(), collection.items("image"), Shard(1, 2), store=store)
    # 20 in batches of 4 are 5 steps: 2 to the first shard, 3 to the second.
    assert (first.rows, first.computed, first.finished, first.complete) == (range(8), 8, (1,), False)
    with pytest.raises(KeyboardInterrupt):
        encode_shard(Dies(), collection.items("image"), Shard(2, 2), store=store)
    again = Means()
    skipped = encode_shard(again, collection.items("image"), Shard(1, 2), store=store)
    assert (again.seen, skipped.computed, skipped.finished) == ([], 0, (1,))
    resumed = encode_shard(again, collection.items("image"), Shard(2, 2), store=store)
    assert again.seen == [4] and (resumed.resumed, resumed.computed) == (8, 4)
    assert resumed.complete and not resumed.joined
    join_shards(Means(), collection.items("image"), store=store)
    late = encode_shard(again, collection.items("image"), Shard(1, 2), store=store)
    assert late.joined and late.complete and late.computed == 0 and again.seen == [4]


def test_joining_goes_on_over_what_one_process_had_encoded(tmp_path: Path) -> None:
    """The journal of the whole may end anywhere: what it holds is kept, the rest comes from the shards."""
    collection, store = photos(tmp_path / "photos", 21), Store(tmp_path / "store")
    for row in (3, 5, 17):
        (tmp_path / "photos" / f"p{row:03}.png").write_bytes(b"no")

    class Dies(Means):
        stored_card = Means().stored_card  # as if its code were that of the sound one

        def embed_images(self, batch: Any) -> Any:
            if len(self.seen) == 2:
                raise KeyboardInterrupt
            return super().embed_images(batch)

    with pytest.raises(KeyboardInterrupt):  # after two batches of three: 6 inputs, in the middle of a shard
        encode_detailed(Dies(), collection.items("image"), store=store, batch_size=3, skip_broken=True)
    make(store, collection, "image", 2, skip_broken=True)
    entry = join_shards(Means(), collection.items("image"), store=store)
    one = encode_detailed(Means(), collection.items("image"), store=Store(tmp_path / "one"), skip_broken=True)
    assert whole(entry.folder) == whole(one.folder)


def test_joining_twice_is_joining_once_and_shards_of_ones_own_stay(tmp_path: Path) -> None:
    collection, place = photos(tmp_path / "photos", 10), tmp_path / "place"
    make(Store(tmp_path / "store"), collection, "image", 2, place=place)
    written = files_of(place)
    assert [(name[:21], name[-4:]) for name in written] == [
        ("0000000000-0000000004", ".npz"),  # three steps of 4, 4 and 2: one for the first process, two for the second
        ("0000000004-0000000010", ".npz"),
    ]
    other = Store(tmp_path / "another machine")
    first = join_shards(Means(), collection.items("image"), place=place, store=other)
    stamp = (first.folder / "vectors.npy").stat().st_mtime_ns
    assert join_shards(Means(), collection.items("image"), place=place, store=other).folder == first.folder
    assert (first.folder / "vectors.npy").stat().st_mtime_ns == stamp
    assert files_of(place) == written
    one = encode_detailed(Means(), collection.items("image"), store=Store(tmp_path / "one"))
    assert whole(first.folder) == whole(one.folder)


def files_of(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob("image-*/*"))


# -- what does not belong together


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(Store(tmp_path / "first"), photos(tmp_path / "photos", 12), "image", 3, place=tmp_path / "place")
    return tmp_path / "place"


def joined(tmp_path: Path, place: Path, **changes: Any) -> None:
    collection = changes.pop("collection", None) or photos_as_they_are(tmp_path)
    join_shards(
        changes.pop("encoder", Means()), collection.items("image"), place=place, store=Store(tmp_path / "second")
    )


def photos_as_they_are(tmp_path: Path) -> Collection:
    """The same collection, without writing its files again (which would give them another time)."""
    ids = [f"p{i:03}" for i in range(12)]
    return Collection.build(
        "photos",
        images={"id": ids, "path": [f"{name}.png" for name in ids]},
        captions={
            "id": [f"{name}#0" for name in ids],
            "text": [f"photo {i} of colour {'very ' * (i % 3)}{i}" for i in range(12)],
            "image_id": ids,
        },
        root=tmp_path / "photos",
    )


def test_of_two_processes_at_one_shard_the_second_finds_it_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, place = photos(tmp_path / "photos", 8).items("image"), tmp_path / "place"
    slow, late = Means(pause=0.8), Means()

    def encode_late() -> None:
        while not list(place.glob("leases/*-1-of-1.*")):
            time.sleep(0.01)
        results.append(encode_shard(late, items, Shard(1, 1), place=place, store=Store(tmp_path / "late")))

    results: list[Any] = []
    thread = threading.Thread(target=encode_late)
    thread.start()
    encode_shard(slow, items, Shard(1, 1), place=place, store=Store(tmp_path / "slow"))
    thread.join()
    assert late.seen == [] and results[0].computed == 0 and results[0].complete
    assert "another process is encoding shard 1/1; waiting for it" in capsys.readouterr().err
    assert [path.name for path in place.rglob(".*")] == []


def test_a_shard_whose_upload_failed_is_not_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items, place = photos(tmp_path / "photos", 8).items("image"), "memory://bucket/shards"
    store, first, create = Store(tmp_path / "store"), Means(), RemoteFolder.create

    def fails(self: RemoteFolder, name: str, data: bytes, writer: str = "") -> bool:
        if name.endswith(".npz"):
            raise UnreachableError(f"{self.place}/{name} cannot be reached.")
        return create(self, name, data, writer)

    monkeypatch.setattr(RemoteFolder, "create", fails)
    with pytest.raises(UnreachableError):
        encode_shard(first, items, Shard(1, 2), place=place, store=store)
    assert sum(first.seen) == 4
    monkeypatch.setattr(RemoteFolder, "create", create)
    second, third = Means(), Means()
    again = encode_shard(second, items, Shard(1, 2), place=place, store=store)
    assert second.seen == [] and (again.computed, again.finished) == (0, (1,))
    assert encode_shard(third, items, Shard(2, 2), place=place, store=store).complete
    entry = join_shards(Means(), items, place=place, store=store)
    one = encode_detailed(Means(), items, store=Store(tmp_path / "one"))
    assert whole(entry.folder) == whole(one.folder)
    assert not list((tmp_path / "store").rglob("*.npz")) and RemoteFolder(place).listing("leases") == {}


def test_of_two_processes_at_one_shard_elsewhere_one_encodes(tmp_path: Path) -> None:
    items, place = photos(tmp_path / "photos", 8).items("image"), "memory://bucket/two"
    models, results = [Means(pause=0.3), Means(pause=0.3)], list[Any]()

    def work(model: Means) -> None:
        results.append(encode_shard(model, items, Shard(1, 1), place=place, store=Store(tmp_path / str(id(model)))))

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(model.seen) for model in models) == [0, 8] and all(result.complete for result in results)


def test_what_a_killed_process_had_begun_to_write_is_removed_by_the_next(tmp_path: Path, place: Path) -> None:
    [folder] = place.glob("image-*/")
    for begun in (folder / ".new-1-of-2", place / ".new-1-of-2", folder / ".new-2-of-2"):
        begun.write_bytes(b"half a chunk")
    encode_shard(Means(), photos_as_they_are(tmp_path).items("image"), Shard(1, 2), place=place)
    assert [path.name for path in place.rglob(".*")] == [".new-2-of-2"]  # of a process that may be at work


def test_missing_inputs_are_named_with_what_makes_them(tmp_path: Path, place: Path) -> None:
    first, second, _ = sorted(place.glob("image-*/*"))
    second.unlink()
    with refused(EmbeddingError, "12", "4", "4 to 8.", code="embedding-shards-missing", hint="same launch again"):
        joined(tmp_path, place)
    first.unlink()
    with refused(EmbeddingError, "8", "0 to 8.", code="embedding-shards-missing"):
        joined(tmp_path, place)
    with refused(EmbeddingError, "nowhere", "image", code="no-shards"):
        joined(tmp_path, tmp_path / "nowhere")
    again = encode_shard(Means(), photos_as_they_are(tmp_path).items("image"), Shard(1, 1), place=place)
    assert (again.resumed, again.computed) == (4, 8)
    joined(tmp_path, place)


def test_every_flipped_byte_of_a_shard_is_found(tmp_path: Path, place: Path) -> None:
    path = sorted(place.glob("image-*/*"))[1]
    sound = path.read_bytes()
    for at in range(0, len(sound), 40):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
        with refused(EmbeddingError, str(path.relative_to(tmp_path)), code="damaged", hint="delete it"):
            joined(tmp_path, place)
    path.write_bytes(sound[:-4])
    with refused(EmbeddingError, path.name, code="damaged"):
        joined(tmp_path, place)
    path.write_bytes(sound)
    joined(tmp_path, place)


def test_shards_by_another_model_or_of_other_things_are_named(tmp_path: Path, place: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"others: made by means \(w1, float32\), not by other \(w2"):
        joined(tmp_path, place, encoder=Means(weights="w2", name="other"))
    unhashed = Means(weights=None, name="other")
    with pytest.raises(EncoderError, match="other: shards are made by several processes, and its card has neither"):
        joined(tmp_path, place, encoder=unhashed)
    unhashed.card = EncoderCard("other", "toy", revision="r2")
    with pytest.raises(EmbeddingError, match=r"made by means \(w1, float32\), not by other \(r2, float32\)"):
        joined(tmp_path, place, encoder=unhashed)
    resized = Means()
    resized.card = EncoderCard("means", "toy", weights="w1", image_preprocessing={"size": 4})
    with refused(EmbeddingError, "made with another preprocessing", code="no-shards"):
        joined(tmp_path, place, encoder=resized)
    fewer = photos_as_they_are(tmp_path).keep_images(np.arange(12) < 11)
    with refused(EmbeddingError, "another collection", "photos", "fingerprint", "not photos"):
        joined(tmp_path, place, collection=fewer)
    touched = tmp_path / "photos" / "p000.png"
    shutil.copy(tmp_path / "photos" / "p001.png", touched)
    with pytest.raises(EmbeddingError, match=r"of the same ids, but in another order, or of other pictures"):
        joined(tmp_path, place)


def test_one_place_holds_shards_of_several_models_and_collections(tmp_path: Path, place: Path) -> None:
    collection = photos_as_they_are(tmp_path)
    fewer = collection.keep_images(np.arange(12) < 11)
    for items, encoder in ((collection.items("image"), Means(weights="w2")), (fewer.items("image"), Means())):
        encode_shard(encoder, items, Shard(1, 1), place=place, store=Store(tmp_path / "third"))
        entry = join_shards(encoder, items, place=place, store=Store(tmp_path / "third"))
        assert entry.card["count"] == len(items)
    joined(tmp_path, place)


def test_shards_of_copies_belong_together(tmp_path: Path, place: Path) -> None:
    """Each machine may have a copy of its own: it is bytes that count, not times."""
    os.utime(tmp_path / "photos" / "p000.png", ns=(1, 1))
    joined(tmp_path, place)


def test_other_numbers_of_processes_and_sizes_of_batches_go_on_with_what_is_there(tmp_path: Path, place: Path) -> None:
    collection = photos_as_they_are(tmp_path)
    one = encode_detailed(Means(), collection.items("image"), store=Store(tmp_path / "one"))
    sorted(place.glob("image-*/*"))[1].unlink()
    # 12 in batches of 3 are 4 steps: inputs 0 to 6 for the first of two processes, of which 4 and 5 are missing.
    half = encode_shard(Means(), collection.items("image"), Shard(1, 2), place=place, batch_size=3)
    assert (half.rows, half.resumed, half.computed, half.finished) == (range(6), 4, 2, (1,))
    rest = encode_shard(Means(), collection.items("image"), Shard(2, 2), place=place, batch_size=3)
    assert (rest.resumed, rest.computed, rest.complete) == (4, 2, True)
    entry = join_shards(Means(), collection.items("image"), place=place, store=Store(tmp_path / "second"))
    assert whole(entry.folder) == whole(one.folder)


def test_batches_end_where_those_of_a_whole_run_do_wherever_it_goes_on(tmp_path: Path, place: Path) -> None:
    for chunk in sorted(place.glob("image-*/*"))[1:]:
        chunk.unlink()
    again = Means()  # inputs 4 to 12, in batches of 3 of the whole: 3–6, 6–9, 9–12
    encode_shard(again, photos_as_they_are(tmp_path).items("image"), Shard(1, 1), place=place, batch_size=3)
    assert again.seen == [2, 3, 3]


def test_another_order_has_shards_of_its_own(tmp_path: Path, place: Path) -> None:
    collection = photos_as_they_are(tmp_path)
    backwards = Collection.build(
        "photos",
        images={name: collection.images[name].to_pylist()[::-1] for name in ("id", "path")},
        captions={name: collection.captions[name].to_pylist() for name in ("id", "text", "image_id")},
        root=collection.root,
    )
    with refused(EmbeddingError, "in another order", code="no-shards"):
        joined(tmp_path, place, collection=backwards)
    encode_shard(Means(), backwards.items("image"), Shard(1, 1), place=place, store=Store(tmp_path / "third"))
    entry = join_shards(Means(), backwards.items("image"), place=place, store=Store(tmp_path / "third"))
    assert entry.content()[1][:, 0].tolist() == list(range(12))[::-1]  # type: ignore[index]


def test_what_cannot_be_divided(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 3)
    from visir.encoders.models.vector_files import Imported, VectorRows

    made = encode(Means(), collection, "image")
    with refused(EncoderError, code="vectors-made-already", hint=False):
        imported = Imported({"image": VectorRows(made.vectors, made.ids)}, {"image": made.encoder}, tmp_path)
        encode_shard(imported, collection.items("image"), Shard(1, 2))
    empty = Collection.build("none", images={"id": ["a"]})
    with refused(CollectionError, "texts", code="no-encode"):
        encode_shard(Means(), empty.items("text"), Shard(1, 2))
    assert alignment(Means(), "image", None) == 4 and alignment(Means(), "text", 5) == 40  # windows of eight batches
    assert isinstance(made, Embeddings)
