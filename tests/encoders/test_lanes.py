"""Lanes: pieces of a batch on one core each. Vectors do not depend on the cores, nor does anything else notice them."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_late
import tiny_sentence
import tiny_transformers
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

import visir
from visir.encoders import Encoder, Store, encode_detailed, encode_parts, lanes, load_cross_encoder
from visir.encoders.devices import is_amd_avx512
from visir.encoders.models import precision
from visir.encoders.pairs import match_pairs
from visir.errors import ImageError
from visir.records import Items

PHOTOS = 45  # whole pieces, and small ones at the end
TEXTS = [f"{'a small dog and a red boat ' * (number % 4)}number {number}" for number in range(70)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lanes")
    random = np.random.default_rng(0)
    (place / "photos").mkdir()
    for number in range(PHOTOS):
        Image.fromarray(random.integers(0, 256, (40, 50, 3), np.uint8)).save(place / f"photos/{number:02}.png")
    tiny_transformers.save("clip", place / "clip")
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Encoder:
    return visir.load(str(folder / "clip"), device="cpu")


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def photos(folder: Path) -> list[Path]:
    return sorted((folder / "photos").iterdir())


def vectors(model: Encoder, source: Any, place: Path, **options: Any) -> NDArray[np.float32]:
    return np.array(visir.encode(model, source, store=Store(place), **options).vectors)


def process_threads() -> int:
    """The number that a new thread is given."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("kind", ["photos", "texts"])
def test_bits_depend_neither_on_cores_nor_on_batches(folder: Path, model: Encoder, tmp_path: Path, kind: str) -> None:
    source: Any = photos(folder) if kind == "photos" else TEXTS
    sizes = (8, 16, 64) if kind == "photos" else (64, 128)
    torch.set_num_threads(1)
    expected = vectors(model, source, tmp_path / "one", batch_size=sizes[-1])
    for cores in (1, 2, 3):
        torch.set_num_threads(cores)
        for size in sizes:
            for workers in (None, 2):
                made = vectors(model, source, tmp_path / f"{cores} {size} {workers}", batch_size=size, workers=workers)
                assert np.array_equal(made, expected)
    torch.set_num_threads(7)  # several threads a piece
    assert np.abs(vectors(model, source, tmp_path / "seven") - expected).max() < 1e-5
    if kind == "photos":
        torch.set_num_threads(2)
        for size in (1, 3, 5):
            assert np.abs(vectors(model, source, tmp_path / f"{size}", batch_size=size) - expected).max() < 1e-5


def test_an_interrupted_call_goes_on_to_the_same_bits(folder: Path, model: Encoder, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    expected = vectors(model, photos(folder), tmp_path / "whole", batch_size=16)
    broken, files = tmp_path / "photos", photos(folder)
    broken.mkdir()
    for path in files:
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "29.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 50)
    with pytest.raises(ImageError, match="29"):
        visir.encode(model, broken, store=tmp_path / "store", batch_size=16)
    assert process_threads() == torch.get_num_threads() == 2
    (broken / "29.png").write_bytes(files[29].read_bytes())
    items = visir.open(broken).items("image")
    made = encode_detailed(model, items, store=tmp_path / "store", batch_size=16)
    order = np.argsort(items.ids.to_pylist())
    assert np.array_equal(np.asarray(made.embeddings)[order], expected)


def test_broken_pictures_are_set_aside_by_name(folder: Path, model: Encoder, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    place = tmp_path / "photos"
    place.mkdir()
    for path in photos(folder):
        (place / path.name).write_bytes(path.read_bytes() if path.name not in ("03.png", "44.png") else b"no picture")
    items = visir.open(place).items("image")
    made = encode_detailed(model, items, store=tmp_path / "store", skip_broken=True)
    assert sorted(name[:2] for name in made.broken) == ["03", "44"] and len(made.embeddings) == PHOTOS - 2


def test_pieces_are_cut_by_the_numbers_of_rows_alone() -> None:
    whole = list(lanes.pieces(0, 45, 16, 45))
    assert [len(piece) for piece in whole] == [8, 8, 8, 8, 4, 4, 4, 1]
    assert [len(piece) for piece in lanes.pieces(0, 45, 5, 45)] == [5] * 6 + [4, 1] * 3
    for stop in range(45):  # wherever a call had stopped, what is left of a piece is encoded, and then the same pieces
        begun = list(lanes.pieces(stop, 45, 16, 45))
        assert begun[0].start == stop and begun[1:] == whole[-len(begun) + 1 :][: len(begun) - 1]
    assert list(lanes.pieces(16, 32, 16, 45)) == whole[2:4]  # a shard


def tar(place: Path, files: list[Path]) -> Path:
    with tarfile.open(place, "w") as shard:
        for path in files:
            shard.add(path, path.name)
    return place


def test_parts_are_made_in_lanes_to_the_same_bytes(folder: Path, model: Encoder, tmp_path: Path) -> None:
    shard = tar(tmp_path / "0.tar", photos(folder))
    made: dict[tuple[int, int, int | None], Any] = {}
    for cores, size, workers in ((1, 16, None), (2, 16, None), (3, 16, None), (2, 8, None), (2, 16, 2)):
        torch.set_num_threads(cores)
        seen: set[str] = set()
        with watched(model, seen):
            parts = encode_parts(model, shard, tmp_path / f"{cores} {size} {workers}", batch_size=size, workers=workers)
        [made[cores, size, workers]] = parts.parts
        assert parts.images == PHOTOS and (cores == 1 or all(name.startswith("lane") for name in seen))
    first = made.pop((1, 16, None))
    assert first.ids.to_pylist() == [f"0.tar/{number:02}" for number in range(PHOTOS)]
    for other in made.values():
        assert np.array_equal(other.vectors, first.vectors) and other.ids.equals(first.ids)
    alone = vectors(model, photos(folder), tmp_path / "store")
    assert np.abs(first.vectors - alone).max() < 1e-5


def test_broken_pictures_of_a_part_are_set_aside_in_lanes(folder: Path, model: Encoder, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    (tmp_path / "03.png").write_bytes(b"no picture")
    files = [path if path.name != "03.png" else tmp_path / "03.png" for path in photos(folder)]
    (tmp_path / "source").mkdir()
    tar(tmp_path / "source" / "0.tar", files)
    tar(tmp_path / "source" / "1.tar", [tmp_path / "03.png"])
    done = encode_parts(model, tmp_path / "source", tmp_path / "parts", skip_broken=True, ids="key")
    assert (done.images, done.broken) == (PHOTOS - 1, 2)
    assert "03" not in {name for part in done.parts for name in part.ids.to_pylist()}


@pytest.mark.parametrize("kind", ["colpali", "colqwen2"])
def test_several_vectors_of_a_picture_depend_on_no_other_picture(folder: Path, tmp_path: Path, kind: str) -> None:
    tiny_late.save(kind, tmp_path / kind)
    late = visir.load(str(tmp_path / kind), device="cpu")
    random, source = np.random.default_rng(1), []
    for number in range(11):  # of several shapes: other numbers of vectors
        size = (20 + 30 * (number % 3), 40)
        source.append(Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8)))
    torch.set_num_threads(1)
    alone = [vectors(late, [picture], tmp_path / f"alone {row}") for row, picture in enumerate(source)]
    for cores, size in ((1, 8), (2, 8), (3, 3)):
        torch.set_num_threads(cores)
        made = visir.encode(late, source, store=Store(tmp_path / f"{cores} {size}"), batch_size=size)
        assert np.array_equal(np.asarray(made.vectors), np.concatenate(alone))


@pytest.mark.parametrize("kind", ["blip", "texts"])
def test_pairs_are_matched_in_lanes_to_the_same_bits(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    texts = Items.of_texts({str(number): text for number, text in enumerate(TEXTS)})
    outer = visir.open(folder / "photos").items("image") if kind == "blip" else texts
    if kind == "blip":
        tiny_transformers.save("blip", tmp_path / "model")
    else:
        tiny_sentence.save_re_ranker(tmp_path / "model")
    model = load_cross_encoder(str(tmp_path / "model"), device="cpu")
    first, second = np.divmod(np.arange(5 * len(texts)), len(texts))
    found, seen, match = [], set[str](), model.match_roles

    def noted(*given: Any) -> NDArray[np.float32]:
        seen.add(threading.current_thread().name.split("_")[0])
        return match(*given)

    monkeypatch.setattr(model, "pairs_at_once", 10)
    monkeypatch.setattr(model, "match_roles", noted)
    for cores in (1, 2, 3):
        torch.set_num_threads(cores)
        found.append(match_pairs(model, outer, texts, first, second, root=tmp_path / str(cores)).scores)
        assert seen == ({"MainThread"} if cores == 1 else {"lane"}) and torch.get_num_threads() == cores
        seen.clear()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2]) and np.ptp(found[0]) > 0


@contextmanager
def watched(model: Encoder, seen: set[str]) -> Iterator[None]:
    """Note which threads compute."""
    forward = type(model).forward

    def noted(self: Any, *arguments: Any) -> Any:
        seen.add(threading.current_thread().name)
        return forward(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "forward", noted)
        yield


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_threads_of_the_program_stay_what_they_were(fault: type[BaseException]) -> None:
    torch.set_num_threads(5)
    seen: list[int] = []

    def work(number: int) -> int:
        seen.append(torch.get_num_threads())
        if number == 6:
            raise fault
        return number

    with pytest.raises(fault):
        list(lanes.over_lanes(work, range(40), 3))
    assert set(seen) == {1} and torch.get_num_threads() == process_threads() == 5
    assert "lane" not in {thread.name.split("_")[0] for thread in threading.enumerate()}


def test_others_keep_their_threads_while_lanes_compute() -> None:
    torch.set_num_threads(4)
    begun, go_on = threading.Event(), threading.Event()

    def work(number: int) -> int:
        begun.set()
        assert go_on.wait(30)
        return torch.get_num_threads()

    made: list[int] = []
    encoding = threading.Thread(target=lambda: made.extend(lanes.over_lanes(work, range(4), 8)))
    encoding.start()
    assert begun.wait(30)
    for _ in range(20):  # also one that is born while the lanes begin
        assert process_threads() in (1, 2, 4)
    assert torch.get_num_threads() == 4
    go_on.set()
    encoding.join(30)
    assert made == [2, 2, 2, 2] and process_threads() == 4  # eight cores, four pieces


def test_results_come_in_order_and_pieces_are_taken_a_few_ahead() -> None:
    taken: list[int] = []

    def coming() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    made = lanes.over_lanes(lambda number: number * 2, coming(), 2)
    assert [next(made), next(made)] == [0, 2] and len(taken) <= 8
    assert list(made) == list(range(4, 100, 2))
    unfinished = lanes.over_lanes(lambda number: number, range(10**9), 2)
    assert next(unfinished) == 0
    unfinished.close()
    assert not any(thread.name.startswith("lane") for thread in threading.enumerate())


def test_two_encodings_at_once_beside_a_search(folder: Path, model: Encoder, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    expected = [vectors(model, source, tmp_path / "alone") for source in (photos(folder), TEXTS)]
    query = model.encode_texts(["a red boat"])
    made: dict[int, NDArray[np.float32]] = {}

    def encode(number: int, source: Any) -> None:
        made[number] = vectors(model, source, tmp_path / str(number))

    sources = [photos(folder), TEXTS]
    running = [threading.Thread(target=encode, args=(number, source)) for number, source in enumerate(sources)]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        assert np.array_equal(model.encode_texts(["a red boat"]), query)
    assert all(np.array_equal(made[number], expected[number]) for number in (0, 1))
    assert torch.get_num_threads() == process_threads() == 2


def test_an_encoder_of_ones_own_is_called_by_one_thread_with_whole_batches() -> None:
    calls: list[tuple[int, int]] = []

    def texts(batch: list[str]) -> NDArray[np.float32]:
        calls.append((threading.get_ident(), len(batch)))
        return np.ones((len(batch), 2), np.float32)

    visir.encode(Encoder.wrap("own", text=texts, batch_size=32), TEXTS)
    assert set(calls) == {(threading.get_ident(), size) for size in (32, 6)}


CHILD = """
import json, os, sys, threading, torch, visir
import numpy as np
torch.set_num_threads(2)
model = visir.load(sys.argv[1], device="cpu")
first = np.array(visir.encode(model, sys.argv[2], "image", store=sys.argv[3]).vectors)
read, write = os.pipe()
if (child := os.fork()) == 0:  # without the threads of its parent
    torch.set_num_threads(1)
    torch.set_num_threads(2)
    again = np.array(visir.encode(model, sys.argv[2], "image", store=sys.argv[3] + "-child").vectors)
    os.write(write, b"same" if np.array_equal(first, again) else b"other")
    os._exit(0)
print(json.dumps([os.read(read, 9).decode(), os.waitpid(child, 0)[1], torch.get_num_threads()]))
"""


def test_a_forked_process_encodes_too(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(folder / "clip"), str(folder / "photos"), str(tmp_path / "store")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and json.loads(ran.stdout) == ["same", 0, 2], ran.stderr


def in_child(name: str, source: str, store: str) -> NDArray[np.float32]:
    torch.set_num_threads(2)
    return np.array(visir.encode(visir.load(name, device="cpu"), source, "image", store=store).vectors)


def test_a_spawned_process_encodes_too(folder: Path, model: Encoder, tmp_path: Path) -> None:
    expected = vectors(model, folder / "photos", tmp_path / "here")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        arguments = (str(folder / "clip"), str(folder / "photos"), str(tmp_path / "there"))
        made = pool.apply_async(in_child, arguments).get(timeout=120)
    assert np.array_equal(made, expected)


# Products by the library that is faster on this processor.


def test_products_by_onednn_are_those_of_full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "is_amd_avx512", lambda: True)
    products = precision._products.__wrapped__()
    if products is None:
        pytest.skip("this PyTorch has not both libraries")
    torch.manual_seed(0)
    layer = torch.nn.Linear(768, 640)
    rows = torch.randn(2, 60, 768)
    exact = functional.linear(rows.double(), layer.weight.double(), layer.bias.double()).detach()
    with torch.inference_mode():
        plain = layer(rows)
        with products():
            made, bare = layer(rows), functional.linear(rows.transpose(0, 1), layer.weight)
            empty, half = layer(rows[:0]), functional.linear(rows.bfloat16(), layer.weight.bfloat16())
            parts = [layer(rows[:, start : start + 20]) for start in range(0, 60, 20)]
        assert empty.shape == (0, 60, 640) and half.dtype == torch.bfloat16
        assert torch.allclose(bare.transpose(0, 1), functional.linear(rows, layer.weight), atol=1e-5)
    assert not torch.equal(made, plain)  # another library
    assert (made - exact).abs().max() < 4e-6  # TF32 would be at 1e-3
    assert torch.equal(torch.cat(parts, 1), made)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("vendor_id\t: AuthenticAMD\nflags\t: avx2 avx512f", True), ("vendor_id\t: GenuineIntel\nflags: avx512f", False)],
)
def test_the_processor_is_known_by_its_maker(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert is_amd_avx512(tmp_path / "cpuinfo") is expected and not is_amd_avx512(tmp_path / "none")
