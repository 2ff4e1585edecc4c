"""Arrays from anybody: an error of visir's that names the file, nothing unpickled, nothing allocated in vain."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import visir
from refusals import refused
from visir.arrays import ArrayArchive, ArrayFileError, array_of_bytes, load_array
from visir.encoders.models.vector_files import read_vectors
from visir.errors import VisirError
from visir.parquet import ParquetFileError, read_table
from visir.retrieval.formats import write_run

VECTORS = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
IDS = np.array([f"{number}.jpg" for number in range(12)])


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    """The beginning of an NPY file that claims a shape, and holds four bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(4)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("shape", [(10**12, 256), (2**62, 2**62), (-1, 4), (2,)])
def test_a_header_that_claims_more_than_there_is(shape: tuple[int, ...], mapped: bool, tmp_path: Path) -> None:
    (tmp_path / "v.npy").write_bytes(header(shape))
    with refused(ArrayFileError, "v.npy"):
        load_array(tmp_path / "v.npy", mapped=mapped)
    with zipfile.ZipFile(tmp_path / "v.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", header(shape))
    with ArrayArchive(tmp_path / "v.npz") as arrays, refused(ArrayFileError, "v.npz", "image"):
        arrays["image"]


def test_more_than_the_memory_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Zeros pack a thousand times denser: a small archive may hold more than there is room for."""
    monkeypatch.setattr("visir.arrays._memory", lambda: 1000.0)
    np.savez_compressed(tmp_path / "v.npz", image=np.zeros((300, 4), np.float32))
    with (
        ArrayArchive(tmp_path / "v.npz") as arrays,
        refused(ArrayFileError, "4,800", code="bytes-numbers-more-machine"),
    ):
        arrays["image"]
    np.save(tmp_path / "v.npy", np.zeros((300, 4), np.float32))
    assert load_array(tmp_path / "v.npy", mapped=True).shape == (300, 4), "a file that is mapped takes no memory"


@pytest.mark.parametrize("read", [load_array, lambda path: array_of_bytes(path.read_bytes(), str(path))])
def test_objects_are_never_unpickled(read: Callable[[Path], Any], tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    np.save(tmp_path / "v.npy", np.array([Evil()], object), allow_pickle=True)
    npz(tmp_path / "v.npz", image=np.array([Evil()], object))
    with refused(ArrayFileError, code="array-python-objects-pickle"):
        read(tmp_path / "v.npy")
    with ArrayArchive(tmp_path / "v.npz") as arrays, refused(ArrayFileError, code="array-python-objects-pickle"):
        arrays["image"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("array", [np.asfortranarray(VECTORS), VECTORS[:0], VECTORS.astype("f2"), IDS], ids=str)
@pytest.mark.parametrize("mapped", [False, True])
def test_sound_arrays_are_read_as_they_are(array: Any, mapped: bool, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", array)
    np.testing.assert_array_equal(load_array(tmp_path / "v.npy", mapped=mapped), array)
    with ArrayArchive(npz(tmp_path / "v.npz", image=array)) as arrays:
        np.testing.assert_array_equal(arrays["image"], array)
        assert "image" in arrays and "text" not in arrays and len(arrays) == 1


def altered(data: bytes, numbers: random.Random) -> bytes:
    """A byte changed, bytes left out, put in, zeroed, or the end cut off."""
    changed, place = bytearray(data), numbers.randrange(len(data))
    kind = numbers.randrange(5)
    if kind == 0:
        changed[place] ^= 1 << numbers.randrange(8)
    elif kind == 1:
        del changed[place : place + numbers.randrange(1, 9)]
    elif kind == 2:
        changed[place:place] = numbers.randbytes(3)
    elif kind == 3:
        changed[place : place + 16] = bytes(len(changed[place : place + 16]))
    else:
        del changed[place:]
    return bytes(changed)


def write_seeds(folder: Path) -> dict[str, Callable[[], Any]]:
    """Files of vectors, runs and tables as users hand them over; from the name of each to who reads it."""
    npz(folder / "v.npz", image=VECTORS, image_ids=IDS)
    np.savez_compressed(folder / "z.npz", image=VECTORS, image_ids=IDS)
    (folder / "npy").mkdir()
    np.save(folder / "npy" / "image.npy", VECTORS)
    pq.write_table(pa.table({"id": IDS}), folder / "npy" / "image.ids.parquet")
    columns = {"id": IDS, "modality": ["image"] * 12, "vector": VECTORS.tolist()}
    pq.write_table(pa.table(columns), folder / "v.parquet")
    pq.write_table(
        pa.table({"image": IDS, "caption": [f"a dog {number}" for number in range(12)]}), folder / "c.parquet"
    )
    run = visir.read_run({f"q{number}": {"a": 0.5, "b": float(number)} for number in range(8)}, name="r", task="t2i")
    for ending in ("json", "parquet", "trec", "json.gz", "trec.gz", "json.xz"):
        write_run(run, folder / f"run.{ending}")
    runs = {
        f"run.{ending}": lambda ending=ending: visir.read_run(folder / f"run.{ending}")
        for ending in ("json", "parquet", "trec", "json.gz", "trec.gz", "json.xz")
    }
    return {
        **runs,
        "v.npz": lambda: read_vectors(f"npz:{folder}/v.npz"),
        "z.npz": lambda: read_vectors(f"npz:{folder}/z.npz"),
        "npy/image.npy": lambda: read_vectors(f"npy:{folder}/npy"),
        "npy/image.ids.parquet": lambda: read_vectors(f"npy:{folder}/npy"),
        "v.parquet": lambda: visir.load(f"parquet:{folder}/v.parquet"),
        "c.parquet": lambda: visir.open(str(folder / "c.parquet"), images="none"),
    }


@pytest.mark.filterwarnings("ignore")
def test_whatever_is_altered_no_reader_raises_anything_but_our_error(tmp_path: Path) -> None:
    numbers, traces = random.Random(0), []
    for name, read in write_seeds(tmp_path).items():
        file = tmp_path / name
        sound = file.read_bytes()
        read()
        for _ in range(40):
            file.write_bytes(altered(sound, numbers))
            try:
                read()
            except VisirError as fault:
                assert file.name in str(fault) or tmp_path.name in str(fault), fault
            except Exception as fault:
                traces.append(f"{name}: {fault!r}")
        file.write_bytes(sound)
    assert traces == []


def test_a_parquet_file_with_text_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"id": broken}), tmp_path / "ids.parquet")
    with refused(ParquetFileError, "ids.parquet", "Parquet", code="not-readable-file"):
        read_table(tmp_path / "ids.parquet")
