"""Parts: whoever makes them, and however often they are killed, each is what one process makes of its file."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoder_toys import Means
from fsspec.implementations.memory import MemoryFileSystem
from PIL import Image

from cut_tars import tar_of
from refusals import refused
from s3_server import s3_server
from verbs import say
from visir.cli.encode import encode as encode_verb
from visir.collections import open_collection, streams
from visir.collections.check import check
from visir.collections.streams import InputFiles
from visir.encoders import Encoder, Parts, Store, claims, encode, encode_parts, load, parts_folder
from visir.encoders import parts as working
from visir.encoders.claims import LeaseState, PartLease, SharedPlace, lease_states, open_place
from visir.encoders.parts import waiting_line
from visir.encoders.parts_folder import read_card, read_part
from visir.errors import CollectionError, EmbeddingError, EncoderError, ImageError, VisirError
from visir.records import EncoderCard
from visir.remote import RemoteFolder, UnreachableError
from watched_streams import Watched

WORKER = Path(__file__).with_name("parts_worker.py")


def picture(*colour: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (colour[0] % 256, colour[1] % 256, colour[2] % 256)).save(stream, "PNG")
    return stream.getvalue()


def members(number: int, count: int) -> dict[str, bytes]:
    """Samples as img2dataset has them."""
    return {
        f"{number:05}{row:04}.{ending}": data
        for row in range(count)
        for ending, data in (("jpg", picture(number, row, 3)), ("json", b"{}"), ("txt", b"a dog"))
    }


def shards(folder: Path, files: int = 5, pictures: int = 10) -> Path:
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:05}.tar").write_bytes(tar_of(members(number, pictures)))
        (folder / f"{number:05}.parquet").write_bytes(b"what img2dataset notes")
        (folder / f"{number:05}_stats.json").write_bytes(b"{}")
    return folder


def contents(parts: Path) -> dict[str, bytes]:
    """Everything but who did what."""
    files = [path for path in sorted(parts.rglob("*")) if path.is_file() and path.parent.name != "leases"]
    return {path.relative_to(parts).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return shards(tmp_path / "shards")


@pytest.fixture
def whole(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """What one process makes that nothing disturbs."""
    encode_parts(Means(), source, tmp_path / "whole", batch_size=4, lease=1.5)
    return contents(tmp_path / "whole")


# -- what a part holds


def test_a_check_reads_every_part_and_names_what_it_did_not_read(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "parts"
    encode_parts(Means(), source, made)
    assert check(made).ok and check(made).counts["files"] > 10

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(data)

    damages: list[Callable[[Path], object]] = [
        flip,
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.write_bytes(b""),
        Path.unlink,
        lambda path: shutil.copy(sorted(path.parent.glob("*.parquet"))[1], path),
    ]
    for damage in damages:
        copy = Path(shutil.copytree(made, tmp_path / "copy", dirs_exist_ok=False))
        damage(sorted((copy / "parts").glob("*.parquet"))[0])
        report = check(copy)
        assert not report.ok and any("00000000-" in case for finding in report.findings for case in finding.examples)
        shutil.rmtree(copy)
    sorted((made / "files").glob("*"))[0].write_bytes(b"PAR1")
    assert not check(made).ok


def test_a_check_names_files_that_visir_did_not_write(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "parts"
    encode_parts(Means(), source, made)
    (made / "parts" / "holiday.parquet").write_bytes(b"mine")
    report = check(made)
    assert report.ok and [finding.examples for finding in report.findings] == [("parts/holiday.parquet",)]
    assert (made / "parts" / "holiday.parquet").read_bytes() == b"mine"


def test_a_check_does_not_miss_a_part_that_was_begun_and_never_made(source: Path, tmp_path: Path) -> None:
    """Its claim ended otherwise, or has no end: that is a warning, what was made and is gone an error."""
    made = tmp_path / "parts"
    encode_parts(Means(), source, made)
    [ending] = (made / "leases").glob("00000000-*.made")
    next((made / "parts").glob("00000000-*")).unlink()
    assert [finding.level for finding in check(made).findings] == ["warning", "error"]
    ending.rename(ending.with_suffix(".failed"))
    assert [finding.level for finding in check(made).findings] == ["warning"]
    ending.with_suffix(".failed").unlink()
    report = check(made)
    assert report.ok and report.findings[0].examples == ("4 of 5 input files have their part",)


def zip_of(parts: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["a.tar", "a.zip"])
def test_a_part_has_the_ids_and_vectors_of_encoding_its_file_alone(tmp_path: Path, kind: str) -> None:
    class Network(Means):
        def __init__(self) -> None:
            super().__init__()
            self.dimension = 17

        def embed_images(self, batch: Any) -> Any:
            vectors: Any = np.stack(batch).reshape(len(batch), -1).astype(np.float32) @ WEIGHTS
            return vectors

    files = members(1, 11) | {"notes.md": b"", "deep/x.y.PNG": picture(9, 9, 9)}
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / kind).write_bytes(tar_of(files) if kind.endswith("tar") else zip_of(files))
    made = encode_parts(Network(), folder / kind, tmp_path / "parts", batch_size=3, ids="key")
    (part,) = made.parts
    alone = encode(Network(), open_collection(folder / kind), "image", batch_size=3, store=Store(tmp_path / "store"))
    assert part.ids.equals(alone.ids) and len(part) == 12 == made.images
    assert np.array_equal(part.vectors, alone.vectors)
    assert part.encoder == Network().stored_card and part.encoder.weights == "w1"


WEIGHTS = np.random.default_rng(0).standard_normal((192, 17)).astype(np.float32)


def test_a_parquet_file_of_pictures(tmp_path: Path) -> None:
    cells = [{"bytes": picture(row, 0, 0), "path": None} if row != 2 else None for row in range(5)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"image": cells, "key": list("abcde")}), tmp_path / "in" / "named.parquet")
    pq.write_table(pa.table({"image": [picture(7, 7, 7)]}), tmp_path / "in" / "plain.parquet")
    named, plain = encode_parts(Means(), tmp_path / "in", tmp_path / "parts").parts
    assert named.ids.to_pylist() == [f"named.parquet/{key}" for key in "abde"]
    assert named.vectors[:, 0].tolist() == [0, 1, 3, 4]
    assert plain.ids.to_pylist() == ["plain.parquet/0"] and plain.vectors.tolist() == [[7, 7, 7]]


def test_other_tools_read_a_part(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    path = next((tmp_path / "whole" / "parts").iterdir())
    schema = pq.read_schema(path)
    assert schema.field("image_id").type == pa.large_string()
    assert schema.field("vector").type == pa.list_(pa.float32(), 3)
    assert load(f"parquet:{path}").dimension == 3  # visir's own reader of vectors made elsewhere


def test_a_part_is_read_in_this_thread_alone(source: Path, tmp_path: Path) -> None:
    """Arrow's threads, in a stream of Python's while the process ends, abort the process."""
    encode_parts(Means(), source, tmp_path / "parts", batch_size=4)
    data = min((tmp_path / "parts" / "parts").iterdir()).read_bytes()
    for read in (read_part, read_card):
        stream = Watched(data)
        read(stream, "a part")
        assert stream.threads == {threading.get_ident()}


def test_of_a_head_its_own_vectors_are_kept(tmp_path: Path) -> None:
    class Halved(Means):
        def base_encoder(self, modality: Any) -> Encoder:
            return Means()

        def project(self, modality: Any, vectors: Any) -> Any:
            return (vectors / 2).astype(np.float32)

    (part, *_) = encode_parts(Halved(weights="h"), shards(tmp_path / "in", 1), tmp_path / "parts").parts
    assert part.vectors[4].tolist() == [0, 2, 1.5] and part.encoder.weights == "h"  # picture 4 of tar 0: (0, 4, 3) / 2


def test_a_file_without_pictures_is_an_empty_part(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of({"a.json": b"{}"}))
    made = encode_parts(Means(), tmp_path / "a.tar", tmp_path / "parts")
    assert (made.files, made.images) == (1, 0) and [len(part) for part in made.parts] == [0]


def test_of_several_pictures_of_a_sample_the_first_is_taken_and_the_others_are_counted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    several = {"a.png": picture(1, 1, 1), "a.webp": b"", "a.seg.png": b"", "a.txt": b"", "b.png": picture(2, 2, 2)}
    (tmp_path / "in" / "0.tar").write_bytes(tar_of(several))
    (tmp_path / "in" / "1.tar").write_bytes(tar_of({"c.png": picture(3, 3, 3)}))
    made = encode_parts(Means(), tmp_path / "in", tmp_path / "parts")
    assert (made.images, made.broken, made.passed_over) == (3, 0, 2)
    assert [vectors.vectors[:, 0].tolist() for vectors in made.parts] == [[1, 2], [3]]  # as visir.open has them
    cards = [pq.read_metadata(path).metadata[b"visir"] for path in sorted((tmp_path / "parts" / "parts").iterdir())]
    assert b'"passed over":{"count":2,"first":"a.webp"}' in cards[0] and b"passed over" not in cards[1]
    done = say(encode_verb, tmp_path / "in", "--model", "pixels", "--parts", tmp_path / "other")
    assert "2 pictures passed over whose sample has another, which comes first" in done.text


def linked_tar(name: str) -> bytes:
    """A picture, and a hard and a symbolic link to it, and one to a text, which is no picture."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for member, kind in (("", None), ("-hard", tarfile.LNKTYPE), ("-soft", tarfile.SYMTYPE)):
            about = tarfile.TarInfo(f"{name}{member}.png")
            about.type, about.linkname = kind or tarfile.REGTYPE, f"{name}.png" if kind else ""
            about.size = len(picture(5, 5, 5)) if kind is None else 0
            tar.addfile(about, io.BytesIO(picture(5, 5, 5)))
        about = tarfile.TarInfo(f"{name}.txt")
        about.type, about.linkname = tarfile.SYMTYPE, "other.txt"
        tar.addfile(about)
    return stream.getvalue()


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_links_in_tars_are_counted(tmp_path: Path, ending: str) -> None:
    (tmp_path / "in").mkdir()
    data = linked_tar("a")
    (tmp_path / "in" / f"0.{ending}").write_bytes(gzip.compress(data) if ending == "tar.gz" else data)
    made = encode_parts(Means(), tmp_path / "in", tmp_path / "parts")
    assert (made.images, made.links, made.passed_over, made.going_on) == (1, 2, 0, [])
    (part,) = (tmp_path / "parts" / "parts").iterdir()
    card = pq.read_metadata(part).metadata[b"visir"]
    assert b'"links":{"count":2,"first":"a-hard.png"}' in card and b"behind" not in card
    done = say(encode_verb, tmp_path / "in", "--model", "pixels", "--parts", tmp_path / "other")
    assert "2 links in tars passed over (pack the files themselves: tar --dereference --hard-dereference)" in done.text


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_a_tar_behind_a_tar_is_noticed(tmp_path: Path, ending: str) -> None:
    """As `cat a.tar b.tar` makes it: GNU tar reads the first alone, too."""
    (tmp_path / "in").mkdir()
    data = tar_of({"a.png": picture(1, 1, 1)}) + tar_of({"b.png": picture(2, 2, 2)})
    (tmp_path / "in" / f"0.{ending}").write_bytes(gzip.compress(data) if ending == "tar.gz" else data)
    (tmp_path / "in" / "1.tar").write_bytes(tar_of({"c.png": picture(3, 3, 3)}) + bytes(5000))
    made = encode_parts(Means(), tmp_path / "in", tmp_path / "parts")
    assert (made.images, made.going_on) == (2, [f"0.{ending}"])
    cards = [pq.read_metadata(path).metadata[b"visir"] for path in sorted((tmp_path / "parts" / "parts").iterdir())]
    assert [b'"more behind the end":true' in card for card in cards] == [True, False]
    done = say(encode_verb, tmp_path / "in", "--model", "pixels", "--parts", tmp_path / "other")
    assert f"1 tar with more behind the mark of the end, not read: 0.{ending} (as of tars joined by cat" in done.text


# -- many processes


def start(source: Path, parts: Path, pause: float = 0.0, lease: float = 1.5, **options: Any) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(WORKER), str(source), str(parts), str(pause), str(lease)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def until(condition: Any, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.02)


def has_part(parts: Path, count: int = 1) -> bool:
    return (parts / "parts").is_dir() and len(
        [p for p in (parts / "parts").iterdir() if p.suffix == ".parquet"]
    ) >= count


def test_two_processes_share_the_work_and_make_the_same(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    both = [start(source, tmp_path / "parts", pause=0.15) for _ in range(2)]
    counts = [int(worker.communicate(timeout=120)[0]) for worker in both]
    assert sum(counts) == 5 and contents(tmp_path / "parts") == whole


def test_two_that_list_the_files_at_the_same_moment_list_them_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, notes = open_place(tmp_path / "parts"), parts_folder.notes_on_tars

    def meanwhile(names: Any) -> set[str]:
        monkeypatch.setattr(parts_folder, "notes_on_tars", notes)
        parts_folder.agreed_parts(place, InputFiles(source))  # the other, between reading the lists and adding one
        return notes(names)

    monkeypatch.setattr(parts_folder, "notes_on_tars", meanwhile)
    assert len(parts_folder.agreed_parts(place, InputFiles(source))) == 5
    assert len(place.listing("files")) == 1


def test_killed_at_several_moments_others_finish_with_the_same_bytes(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    parts = tmp_path / "parts"
    moments = [lambda: (parts / "leases").is_dir(), lambda: has_part(parts), lambda: has_part(parts, 3)]
    for moment in moments:
        worker = start(source, parts, pause=0.2)
        until(moment)
        worker.kill()
        worker.communicate()
    states = lease_states(open_place(parts))
    assert len(states) >= 3
    finished = len(list((parts / "parts").glob("*.parquet")))
    last = start(source, parts)
    output, errors = last.communicate(timeout=120)
    assert int(output) == 5 - finished, errors
    assert contents(parts) == whole


def test_one_that_slept_beyond_its_lease_damages_nothing(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    sleeper = start(source, parts, pause=0.4)
    until(lambda: (parts / "leases").is_dir() and any((parts / "leases").iterdir()))
    os.kill(sleeper.pid, signal.SIGSTOP)
    try:
        other = start(source, parts)
        assert int(other.communicate(timeout=120)[0]) == 5  # it has waited for the lease, and taken the part
        made = {path: path.stat().st_mtime_ns for path in (parts / "parts").iterdir()}
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    output, errors = sleeper.communicate(timeout=120)
    assert sleeper.returncode == 0 and int(output) == 0, errors
    assert contents(parts) == whole
    assert {path: path.stat().st_mtime_ns for path in (parts / "parts").iterdir()} == made


def test_one_that_waits_says_for_what_and_until_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISIR_QUIET", raising=False)
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts, lease=1.5)
    first = min(path.stem for path in (parts / "parts").iterdir())
    capsys.readouterr()
    (parts / "parts" / f"{first}.parquet").unlink()
    place = open_place(parts)
    taken = PartLease.take(place, first, LeaseState(first, 1, 0.0), 1.5)  # by one that gives no further sign of life
    assert taken is not None
    made = encode_parts(Means(), source, parts)
    lines = capsys.readouterr().err.splitlines()
    assert made.files == 1 and made.seconds - made.encoding_seconds > 1
    (line,) = lines  # at once, and then only every ten minutes
    assert re.fullmatch(
        rf"waiting for 1 file that other processes encode: 00000\.tar, by \S+:{os.getpid()} since \S+; without a sign "
        r"of life from there it is taken over at \d\d:\d\d:\d\d UTC",
        line,
    ), line
    monkeypatch.setattr(working, "WAITING_SECONDS", 0.0)
    (parts / "parts" / f"{first}.parquet").unlink()
    PartLease.take(place, first, lease_states(place)[first], 1.5)
    encode_parts(Means(), source, parts)
    assert len(capsys.readouterr().err.splitlines()) > 1


def test_a_line_on_waiting_names_the_part_that_is_free_first(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 3), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    place, listed = open_place(parts), parts_folder.listed_parts(open_place(parts))
    for path in (parts / "leases").iterdir():
        path.unlink()
    assert waiting_line(place, listed, 120) == ""  # nobody works on any
    for part, renewed in zip(listed[:2], (2_000_000_300, 2_000_000_100), strict=True):
        PartLease.take(place, part.part, None, 120)
        os.utime(parts / "leases" / f"{part.part}.000001", (renewed, renewed))
    line = waiting_line(place, listed, 120)
    # 2,000,000,100 + 120 s is 03:37:00 on 18 May 2033
    assert line.startswith("waiting for 2 files that other processes encode: first 00001.tar, by ")
    assert line.endswith("; without a sign of life from there it is taken over at 03:37:00 UTC")


def test_the_rate_is_that_of_the_time_of_encoding(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 4), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    # two at once for 20 s, an hour of nothing, and one for 10 s; of the last nobody knows when it was begun
    times = [(1000, 1010), (1000, 1020), (4600, 4610), (0, 9000)]
    for path, (began, published) in zip(sorted((parts / "parts").iterdir()), times, strict=True):
        since = datetime.fromtimestamp(began, UTC).isoformat() if began else "unknown"
        (parts / "leases" / f"{path.stem}.000001").write_text(json.dumps({"since": since}))
        (parts / "leases" / f"{path.stem}.000001.made").unlink()  # an earlier version wrote none
        os.utime(path, (published, published))
    assert Parts(parts).status().images_per_second == 30 / 30


def test_the_rate_is_the_same_in_a_copy_and_for_files_that_take_less_than_a_second(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    for path, second in zip(sorted((parts / "parts").iterdir()), (1000.0, 2000.5), strict=True):
        note = parts / "leases" / f"{path.stem}.000001.made"
        wrote = json.loads(note.read_bytes())
        assert wrote["images"] == "10" and all(re.search(r":\d\d\.\d{3}\+", wrote[key]) for key in ("began", "since"))
        assert datetime.fromisoformat(wrote["began"]) <= datetime.fromisoformat(wrote["since"])
        began, since = (datetime.fromtimestamp(time, UTC).isoformat() for time in (second, second + 0.125))
        note.write_text(json.dumps({"began": began, "since": since, "images": "10"}))
    shutil.copytree(parts, tmp_path / "copy", copy_function=shutil.copy)  # the files have other times
    for folder in (parts, tmp_path / "copy"):
        assert Parts(folder).status().images_per_second == 20 / 0.25


def test_a_second_note_without_facts_does_not_change_the_rate(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    first, second = sorted((parts / "parts").iterdir())
    for path in (first, second):
        about = {"began": "2000-01-01T00:00:00+00:00", "since": "2000-01-01T00:00:02+00:00", "images": "10"}
        (parts / "leases" / f"{path.stem}.000001.made").write_text(json.dumps(about))
    # a process that had listed the parts before claims the second one, an hour later, and finds it
    for name in (f"{second.stem}.000002", f"{second.stem}.000002.made"):
        (parts / "leases" / name).write_text(json.dumps({"since": "2000-01-01T01:00:00+00:00"}))
    os.utime(second, (946684801, 946684801))
    assert Parts(parts).status().images_per_second == 10 / 2


def test_a_part_that_was_finished_after_the_parts_were_listed_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    before = sorted(path.name for path in (parts / "leases").iterdir())
    unfinished = working._Worker._unfinished
    stale = iter([True])
    monkeypatch.setattr(
        working._Worker, "_unfinished", lambda self, todo: todo if next(stale, False) else unfinished(self, todo)
    )
    assert encode_parts(Means(), source, parts).files == 0
    assert sorted(path.name for path in (parts / "leases").iterdir()) == before


def test_a_part_that_somebody_has_deleted_is_made_again_at_once(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    before = contents(parts)
    (first, _) = sorted((parts / "parts").iterdir())
    first.unlink()
    status = Parts(parts).status()
    assert (status.finished, dict(status.running), dict(status.expired), dict(status.failed)) == (1, {}, {}, {})
    again = encode_parts(Means(), source, parts)
    assert again.files == 1 and again.seconds < 60 and contents(parts) == before  # a lease is one of 120 s


def test_what_a_killed_one_had_begun_to_copy_is_cleared_away(source: Path, whole: Any, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    encode_parts(Means(), source, parts, batch_size=4, lease=1.5)
    (first,) = sorted((parts / "parts").iterdir())[:1]
    first.unlink()
    begun = first.with_name(f".new-{first.stem}.000001")
    begun.write_bytes(b"half")
    strange = first.with_name(".new-thesis")
    strange.write_bytes(b"mine")
    os.utime(parts / "leases" / f"{first.stem}.000001", (0, 0))
    assert encode_parts(Means(), source, parts).files == 1
    assert not begun.exists() and strange.read_bytes() == b"mine"
    strange.unlink()
    assert contents(parts) == whole


def test_only_one_of_many_gets_a_lease(tmp_path: Path) -> None:
    place = open_place(tmp_path / "parts")

    def take(_: int) -> PartLease | None:
        return PartLease.take(place, "p", None, 60)

    with ThreadPoolExecutor(16) as pool:
        taken = [lease for lease in pool.map(take, range(64)) if lease is not None]
    assert len(taken) == 1 and taken[0].is_held()
    (state,) = lease_states(place).values()
    assert state.is_held(60) and not state.is_held(-1) and (state.generation, state.ending) == (1, "")
    second = PartLease.take(place, "p", state, 60)
    assert second is not None and not taken[0].is_held() and taken[0].lost and second.is_held()
    taken[0].end("released")  # of an earlier claim: the later one stands
    assert lease_states(place)["p"].ending == "" and lease_states(place)["p"].generation == 2
    second.end("failed", "why")
    assert lease_states(place)["p"].ending == "failed" and not lease_states(place)["p"].is_held(60)


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    lease = PartLease.take(place, "p", None, 0.4)
    assert lease is not None
    os.utime(tmp_path / "leases" / "p.000001", (0, 0))
    assert not lease_states(place)["p"].is_held(60)
    with lease:
        until(lambda: lease_states(place)["p"].is_held(60), 10)
        PartLease.take(place, "p", LeaseState("p", 1, 0.0), 60)
        until(lambda: lease.lost, 10)


# -- what can be wrong


def test_a_broken_picture_fails_its_file_or_is_listed_in_its_part(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 2)
    (source / "00000.tar").write_bytes(tar_of(members(0, 10) | {"bad.jpg": b"no picture"}))
    with refused(CollectionError, "1", "2 files", "00000.tar", "bad.jpg", code="could-not-encoded") as caught:
        encode_parts(Means(), source, tmp_path / "parts")
    assert str(caught.value).count("00000.tar") == 1  # by its path, which ends in its name
    status = Parts(tmp_path / "parts").status()
    assert (status.files, status.finished, list(status.failed)) == (2, 1, ["00000.tar"])
    made = encode_parts(Means(), source, tmp_path / "parts", skip_broken=True)
    assert (made.files, made.images, made.broken) == (1, 10, 1) and made.parts.status().is_complete
    assert made.parts.status().broken == 1
    ((name, reason),) = made.parts.broken()
    assert name == "00000.tar/bad" and "not an image" in reason


def test_truncated_vanished_and_changed_files_are_named_and_all_others_made(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 4), tmp_path / "parts"
    good = (source / "00001.tar").read_bytes()
    (source / "00001.tar").write_bytes(good[:2300])
    with refused(CollectionError, "1", "4 files", "00001.tar", "damaged or truncated", code="could-not-encoded"):
        encode_parts(Means(), source, parts)
    (source / "00001.tar").write_bytes(good)
    with refused(CollectionError, "00001.tar", "2,300 bytes then", code="files-changed-since-listed"):
        encode_parts(Means(), source, parts)
    made = encode_parts(Means(), source, parts, replace=True)
    assert made.files == 1 and [len(part) for part in made.parts] == [10] * 4
    (source / "00009.tar").write_bytes(good)  # a later call adds what is new
    for name in ("00002.tar", "00002.parquet"):  # what is finished is not missed
        (source / name).unlink()
    made = encode_parts(Means(), source, parts)
    assert made.files == 1 and made.parts.status().files == 5 and made.parts.status().is_complete


def test_a_file_that_is_lost_can_be_given_up(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 4), tmp_path / "parts"
    good = (source / "00001.tar").read_bytes()
    (source / "00001.tar").write_bytes(good[:2300])
    with refused(CollectionError, "00001.tar", "damaged or truncated", code="could-not-encoded"):
        encode_parts(Means(), source, parts)
    (source / "00001.tar").unlink()
    with pytest.raises(CollectionError, match=r"00001.tar: is no longer there"):
        encode_parts(Means(), source, parts)
    made = Parts(parts)
    with pytest.raises(
        EmbeddingError, match=r"2 faults(.|\n)*00002.tar: has its part(.|\n)*0001.tar: was never listed"
    ):
        made.give_up("00001.tar", "00002.tar", "0001.tar")
    assert not made.status().is_complete and not made.given_up()  # all of them, or none
    made.give_up(str(source / "00001.tar"))
    status = made.status()
    assert (status.files, status.finished, status.is_complete, dict(status.failed)) == (4, 3, True, {})
    assert (
        status.given_up["00001.tar"].startswith(f"{source}/00001.tar: is no longer there. (")
        and str(os.getpid()) in (status.given_up["00001.tar"])
    )
    again = encode_parts(Means(), source, parts)
    assert again.files == 0 and again.given_up == status.given_up
    with pytest.warns(
        UserWarning, match=r"1 of 4 input files were given up and have no part, e\.g\. \S+/00001\.tar: is "
    ):
        assert [len(part) for part in again.parts] == [10] * 3
    (source / "00001.tar").write_bytes(good)  # it is there again, as another content
    assert encode_parts(Means(), source, parts).files == 0
    again = encode_parts(Means(), source, parts, replace=True)
    assert again.files == 1 and not again.given_up and [len(part) for part in again.parts] == [10] * 4


def test_a_name_that_only_ends_like_that_of_a_file_gives_nothing_up(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    (source / "00001.tar").write_bytes((source / "00001.tar").read_bytes()[:2300])
    with refused(CollectionError, "00001.tar", code="could-not-encoded"):
        encode_parts(Means(), source, parts)
    with refused(EmbeddingError, "700001.tar", "never listed"):
        Parts(parts).give_up("700001.tar")
    assert not Parts(parts).given_up()


def test_a_file_that_was_given_up_counts_where_it_was_finished_all_the_same(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 1), tmp_path / "parts"
    worker = start(source, parts, pause=0.3)
    until(lambda: (parts / "leases").is_dir() and any((parts / "leases").iterdir()))
    Parts(parts).give_up("00000.tar")
    assert Parts(parts).status().is_complete and not Parts(parts).status().running
    assert encode_parts(Means(), source, parts).files == 0  # it does not wait
    output, errors = worker.communicate(timeout=120)
    assert int(output) == 1, errors
    assert not Parts(parts).given_up() and [len(part) for part in Parts(parts)] == [10]


@pytest.mark.parametrize("content", [b"", b'{"owner": "m', b"[1]"])
def test_a_note_of_what_was_given_up_may_be_damaged(tmp_path: Path, content: bytes) -> None:
    """As after a crash of a machine: that the file was given up still counts, and the parts can be read."""
    folder, parts = shards(tmp_path / "in", 2, 3), tmp_path / "parts"
    (folder / "00001.tar").write_bytes((folder / "00001.tar").read_bytes()[:700])
    with refused(CollectionError, "00001.tar"):
        encode_parts(Means(), folder, parts, batch_size=4)
    Parts(parts).give_up("00001.tar")
    [note] = (parts / "given-up").iterdir()
    note.write_bytes(content)
    assert dict(Parts(parts).status().given_up) == {"00001.tar": "unknown, unknown"}
    with pytest.warns(UserWarning, match=r"00001\.tar: unknown, unknown"):
        assert sum(len(vectors) for vectors in Parts(parts)) == 3
    assert encode_parts(Means(), folder, parts, batch_size=4).files == 0


def test_a_link_to_nothing_among_the_parts_hides_none(tmp_path: Path) -> None:
    folder, parts = shards(tmp_path / "in", 4, 3), tmp_path / "parts"
    encode_parts(Means(), folder, parts, batch_size=4)
    for number in range(20):
        (parts / "parts" / f"link{number}").symlink_to("nowhere")
    assert Parts(parts).status().finished == 4 and len(list(Parts(parts))) == 4


@pytest.mark.parametrize("below", ["", "/parts"])
def test_a_file_is_no_place_for_parts(source: Path, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(VisirError, match=r"file.*: cannot be read \(Not a directory\)(.|\n)*name a folder"):
        encode_parts(Means(), source, f"{tmp_path}/file{below}", batch_size=4)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("left", [0, 40])
def test_how_far_parts_are_names_a_cut_part(tmp_path: Path, left: int) -> None:
    folder, parts = shards(tmp_path / "in", 2, 3), tmp_path / "parts"
    encode_parts(Means(), folder, parts, batch_size=4)
    for number, path in enumerate(sorted((parts / "parts").iterdir())):
        path.write_bytes(path.read_bytes()[:left])
        os.utime(path, (number, number))
        (parts / "leases" / f"{path.stem}.000001.made").unlink()  # else no part is read for it
    with refused(EmbeddingError, "00000000-", ".parquet", code="damaged"):
        Parts(parts).status()


def test_a_change_of_equal_size_is_said_by_its_times(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    (source / "00000.tar").write_bytes(tar_of({"a.jpg": b"x"})[:-1024])  # it fails, and stays to be done
    os.utime(source / "00000.tar", ns=(0, 1_000_000_000))
    size = (source / "00000.tar").stat().st_size
    with refused(CollectionError, "1", "2 files", code="could-not-encoded"):
        encode_parts(Means(), source, parts)
    listed = InputFiles(source)
    os.utime(source / "00000.tar", ns=(0, 86_400_000_000_007))
    said = rf"00000\.tar: {size:,} bytes as then, but last changed 1970-01-01 00:00:01\.000000000 UTC then, "
    with pytest.raises(CollectionError, match=rf"{said}1970-01-02 00:00:00\.000000007 UTC now\n.*\n?.*--give-up FILE"):
        encode_parts(Means(), source, parts)
    with refused(CollectionError, "bytes as then", "but last changed 1970", code="changed-since-listed"):
        listed.check(listed.files[0])


def test_other_shards_of_the_same_names_sizes_and_times_are_noticed(tmp_path: Path) -> None:
    """Reproducible tars have them: the head, the middle or the tail of a file tells."""
    for name, first in (("a", 1), ("b", 9)):
        (tmp_path / name).mkdir()
        tar = tmp_path / name / "0.tar"
        tar.write_bytes(tar_of({"x.bmp": bmp(first), "y.bmp": bmp(2)}))
        os.utime(tar, (1e9, 1e9))
    (listed,) = InputFiles(tmp_path / "a").files
    (other,) = InputFiles(tmp_path / "b").files
    assert (listed.name, listed.size, listed.tag[:10]) == (other.name, other.size, other.tag[:10])
    encode_parts(Means(), tmp_path / "a", tmp_path / "parts")
    with pytest.raises(CollectionError, match=r"0\.tar: [\d,]+ bytes and a time as then, but other content"):
        encode_parts(Means(), tmp_path / "b", tmp_path / "parts")
    encode_parts(Means(), tmp_path / "b", tmp_path / "parts", replace=True)
    (part,) = Parts(tmp_path / "parts")
    assert part.vectors[0].tolist() == [9, 9, 9]


def test_files_that_an_earlier_version_listed_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, parts = shards(tmp_path / "shards", files=1), tmp_path / "parts"
    state = streams._local_state
    with monkeypatch.context() as patch:
        patch.setattr(streams, "_local_state", lambda path: (state(path)[0], state(path)[1].partition("+")[0]))
        encode_parts(Means(), source, parts)
    assert encode_parts(Means(), source, parts).files == 0


def bmp(value: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (value,) * 3).save(stream, "BMP")
    return stream.getvalue()


def test_elsewhere_a_change_of_equal_size_is_said_by_what_the_store_tells(memory: Any) -> None:
    memory.pipe("/bucket/in/a.tar", b"a")
    inputs = InputFiles("memory://bucket/in")
    memory.pipe("/bucket/in/a.tar", b"b")
    with pytest.raises(CollectionError, match=r"1 bytes as then, but ETag or time of change \S+ then, \S+ now"):
        inputs.check(inputs.files[0])


def test_a_file_that_changes_while_it_is_read_is_not_believed(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 1)
    inputs = InputFiles(source)
    reading = inputs.pictures(inputs.files[0])
    next(reading)
    with (source / "00000.tar").open("ab") as stream:
        stream.write(bytes(512))
    with refused(CollectionError, code="changed-since-listed"):
        list(reading)
    (source / "00000.tar").unlink()
    with refused(CollectionError, code="no-longer"):
        next(inputs.pictures(inputs.files[0]))


def test_other_models_settings_and_sources_are_refused(source: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    encode_parts(Means(), source, parts, batch_size=4)
    assert encode_parts(Means(), source, parts).files == 0  # the settings are those of the first
    with pytest.raises(EmbeddingError, match=r"made by means, not by other(.|\n)*batch size is 4, not 8"):
        encode_parts(Means(name="other", weights="w2"), source, parts, batch_size=8)
    with refused(CollectionError, "5", code="none-files-made"):
        (tmp_path / "b.tar").write_bytes(tar_of(members(1, 1)))
        encode_parts(Means(), tmp_path / "b.tar", parts)
    with refused(EmbeddingError, code="lies-source"):
        encode_parts(Means(), source, source / "parts")
    with refused(EncoderError, code="card-neither-weights-nor"):
        encode_parts(Means(weights=None), source, tmp_path / "new")
    with refused(CollectionError, code="no-files"):
        (tmp_path / "empty").mkdir()
        encode_parts(Means(), tmp_path / "empty", tmp_path / "new")
    with refused(EmbeddingError, code="holds-no-parts"):
        Parts(tmp_path / "empty")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("shrds", r"shrds: no such file or folder\.\n  → did you mean 'shards'\?"),
        ("shards/b.tar", r"b\.tar: no such file or folder\.\n  → did you mean 'a\.tar'\?"),
        ("shrds/x/y", r"shrds/x/y: there is no folder \S+/shrds\.\n  → did you mean 'shards'\?"),
        ("shrds/*.tar", r"shrds/\*\.tar: there is no folder \S+/shrds\.\n  → did you mean 'shards'\?"),
        ("shards/*.zip", r"\*\.zip: no file has such a name\.\n  → \S+/shards holds a\.tar"),
        ("shards/a.tar/x", r"x: \S+/shards/a\.tar is a file, no folder\.\n  → name the file itself"),
        ("shards/a.tar/*.tar", r"tar: \S+/shards/a\.tar is a file, no folder\.\n  → name the file itself"),
        ("empty", r"empty: there are no files\.\n  → name some that end in \.tar, "),
        ("empty/*.tar", r"\*\.tar: no file has such a name\.\n  → \S+/empty holds nothing"),
        ("empty/x", r"x: no such file or folder\.\n  → \S+/empty holds nothing"),
    ],
)
def test_a_source_that_is_not_there_is_told_what_is(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.tar").write_bytes(b"")
    with pytest.raises(CollectionError, match=message):
        InputFiles(tmp_path / source)


def test_a_source_without_a_name_is_not_the_working_folder() -> None:
    with refused(CollectionError, code="name-source-empty"):
        InputFiles("")


def test_files_of_others_stay(source: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "thesis.tex").write_bytes(b"mine")
    with refused(EmbeddingError, "thesis.tex", code="holds-files-visir"):
        encode_parts(Means(), source, parts)
    assert [path.name for path in parts.iterdir()] == ["thesis.tex"]
    (parts / "thesis.tex").unlink()
    encode_parts(Means(), source, parts)
    names = ("parts/x.parquet", "parts/.new-x", "leases/notes", "files/x.parquet", "thesis.tex")
    strange = [parts / name for name in names]
    for path in strange:
        path.write_bytes(b"mine")
    (source / "more.tar").write_bytes(tar_of(members(9, 1)))
    assert encode_parts(Means(), source, parts).files == 1
    assert all(path.read_bytes() == b"mine" for path in strange) and len(list(Parts(parts))) == 6


def test_a_file_may_have_a_name_that_is_no_unicode(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    odd = os.fsdecode(b"caf\xe9.tar")
    try:
        (tmp_path / "in" / odd).write_bytes(tar_of({"a.png": picture(1, 2, 3)}))
    except OSError:
        pytest.skip("this file system takes Unicode only")
    [vectors] = encode_parts(Means(), tmp_path / "in", tmp_path / "parts").parts
    assert vectors.ids.to_pylist() == ["caf\\udce9.tar/a"] and vectors.vectors.tolist() == [[1, 2, 3]]


def test_a_row_without_an_id_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"image": [picture(row, 0, 0) for row in range(3)], "id": ["a", None, "c"]})
    pq.write_table(table, tmp_path / "in" / "some.parquet")
    with pytest.raises(CollectionError, match="image#1: has no id in the column 'id'"):
        encode_parts(Means(), tmp_path / "in", tmp_path / "parts")
    [vectors] = encode_parts(Means(), tmp_path / "in", tmp_path / "parts", skip_broken=True).parts
    assert vectors.ids.to_pylist() == ["some.parquet/a", "some.parquet/c"]


@pytest.mark.parametrize("options", [{"lease": 0}, {"lease": -1.0}, {"batch_size": 0}, {"lease": float("nan")}])
def test_options_that_make_no_sense(source: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    [(name, value)] = options.items()
    with pytest.raises(EncoderError, match=f"{name}={value}: a number of (seconds|pictures) above 0"):
        encode_parts(Means(), source, tmp_path / "parts", **options)
    assert not (tmp_path / "parts").exists()


def test_a_full_disk_stops_with_a_message_and_the_same_goes_on(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))  # smaller than a part

    worker = start(source, tmp_path / "parts", preexec_fn=limited)
    _, errors = worker.communicate(timeout=120)
    assert worker.returncode != 0 and "File too large" in errors and "make room" in errors
    assert not list((tmp_path / "parts").rglob(".new*")) and not has_part(tmp_path / "parts")
    encode_parts(Means(), source, tmp_path / "parts")
    assert contents(tmp_path / "parts") == whole


def test_a_damaged_part_is_refused(source: Path, tmp_path: Path) -> None:
    made = encode_parts(Means(), source, tmp_path / "parts")
    path = next((tmp_path / "parts" / "parts").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(b".tar/")] ^= 1
    path.write_bytes(bytes(data))
    with refused(EmbeddingError, path.name, code="damaged"):
        list(made.parts)


class BreakingOff(io.BytesIO):
    """A part whose reading ends with a fault."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(b"PAR1" * 100)
        self.fault = fault

    def read(self, *_: Any) -> bytes:
        raise self.fault


@pytest.mark.parametrize("fault", [ConnectionResetError(104, "Connection reset by peer"), TimeoutError()])
def test_a_break_in_reading_is_not_called_damage(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    made = encode_parts(Means(), source, tmp_path / "parts")
    monkeypatch.setattr(made.parts._place, "open", lambda name: BreakingOff(fault))
    for read in (made.parts, made.parts.broken()):
        with refused(UnreachableError, "parquet", type(fault).__name__) as caught:
            next(iter(read))
        assert "damaged" not in str(caught.value) and "delete" not in str(caught.value)


def test_a_part_that_goes_while_it_is_read_is_gone(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = encode_parts(Means(), source, tmp_path / "parts")
    monkeypatch.setattr(made.parts._place, "open", lambda name: BreakingOff(FileNotFoundError(2, "no such file")))
    with refused(EmbeddingError, "00000.tar", code="part-gone"):
        list(made.parts)


# -- elsewhere


class Flaky(MemoryFileSystem):  # type: ignore[misc]
    """A store that loses one connection in five."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    luck = random.Random(0)
    lost = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("flaky://", "memory://"))

    def _maybe(self) -> None:
        if self.luck.random() < 1 / 5:
            type(self).lost += 1
            raise ConnectionResetError("peer went away")

    def info(self, path: str, **options: Any) -> Any:
        self._maybe()
        return super().info(path, **options)

    def put_file(self, *arguments: Any, **options: Any) -> None:
        self._maybe()
        super().put_file(*arguments, **options)


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True) if files.ls("/") else None


def remote_contents(place: SharedPlace) -> dict[str, bytes]:
    return {
        f"{folder}/{name}": place.read(f"{folder}/{name}") or b""
        for folder in ("files", "parts")
        for name in place.listing(folder)
    }


def test_elsewhere_parts_hold_what_they_hold_here(source: Path, tmp_path: Path, memory: Any) -> None:
    for path in source.iterdir():
        memory.pipe(f"/bucket/in/{path.name}", path.read_bytes())
    made = encode_parts(Means(), "memory://bucket/in/*.tar", "memory://bucket/parts", batch_size=4)
    here = encode_parts(Means(), source, tmp_path / "parts", batch_size=4)
    for there, own in zip(made.parts, here.parts, strict=True):
        assert there.ids.equals(own.ids) and np.array_equal(there.vectors, own.vectors)
    assert encode_parts(Means(), "memory://bucket/in", "memory://bucket/parts").files == 0
    assert memory.exists("/bucket/in/00000.tar") and made.parts.status().is_complete


def test_a_store_that_often_does_not_answer_is_asked_again(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(claims, "RETRY_SECONDS", (0.0,) * 4)
    Flaky.store.clear()
    for path in source.glob("*.tar"):
        MemoryFileSystem.pipe_file(Flaky(), f"/in/{path.name}", path.read_bytes())
    for _ in range(20):
        try:
            made = encode_parts(Means(), "flaky://in", "flaky://parts", batch_size=4)
            break
        except VisirError as fault:  # while it is listed: the user repeats the command
            assert "cannot be reached" in str(fault) or "no files" in str(fault)
    for _ in range(20):
        try:
            sizes = [len(part) for part in made.parts]
            break
        except VisirError:
            continue
    assert sizes == [10] * 5 and Flaky.lost


def test_a_part_whose_upload_failed_is_not_encoded_again(
    source: Path, tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RETRY_SECONDS", (0.0,))
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    publish, first = RemoteFolder.publish, Means()

    def fails(*_: object) -> bool:
        raise UnreachableError("memory://bucket/parts cannot be reached.")

    monkeypatch.setattr(RemoteFolder, "publish", fails)
    with pytest.raises(UnreachableError):
        encode_parts(first, source, "memory://bucket/parts", batch_size=4)
    assert sum(first.seen) == 10  # one file, once
    monkeypatch.setattr(RemoteFolder, "publish", publish)
    second = Means()
    made = encode_parts(second, source, "memory://bucket/parts", batch_size=4)
    assert sum(second.seen) == 40 and made.files == 5 and made.parts.status().is_complete
    here = encode_parts(Means(), source, tmp_path / "parts", batch_size=4)
    for there, own in zip(made.parts, here.parts, strict=True):
        assert there.ids.equals(own.ids) and np.array_equal(there.vectors, own.vectors)
    assert not list((tmp_path / "cache").rglob("*.parquet"))


def test_on_a_server_that_speaks_s3(source: Path, s3: Any, tmp_path: Path) -> None:
    s3.mkdir("bucket")
    for path in source.glob("*.tar"):
        s3.pipe(f"bucket/in/{path.name}", path.read_bytes())
    place = open_place("s3://bucket/parts")
    assert place.create("leases/x.000001", b"a") and not place.create("leases/x.000001", b"b")  # conditional
    assert place.read("leases/x.000001") == b"a"
    s3.rm("bucket/parts", recursive=True)
    worker = start(source, Path("s3://bucket/parts"))  # a process that is killed, over a source of the same files
    worker.kill()
    worker.communicate()
    made = encode_parts(Means(), "s3://bucket/in/*.tar", "s3://bucket/parts", batch_size=4, lease=1.5)
    assert made.files == 5 and made.parts.status().is_complete
    here = encode_parts(Means(), source, tmp_path / "parts", batch_size=4)
    for there, own in zip(made.parts, here.parts, strict=True):
        assert there.ids.equals(own.ids) and np.array_equal(there.vectors, own.vectors)
    s3.pipe("bucket/in/00000.tar", tar_of(members(7, 3)))
    with pytest.raises(CollectionError, match=r"s3://bucket/in/00000\.tar: .* bytes then"):
        encode_parts(Means(), "s3://bucket/in/*.tar", "s3://bucket/parts")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with s3_server(monkeypatch) as files:
        yield files


# -- the verb


def test_the_verb_encodes_and_tells_how_far_the_parts_are(source: Path, tmp_path: Path) -> None:
    command = (source, "--model", "pixels", "--parts", tmp_path / "parts")
    done = say(encode_verb, *command, "--key-ids")
    assert done.status == 0 and "5 files with 50 images encoded here" in done.text and "5 of 5 files" in done.text
    assert next(iter(Parts(tmp_path / "parts"))).ids[0].as_py() == "000000000"
    assert say(encode_verb, *command, "--status", "--json").json["finished"] == 5
    (source / "more.tar").write_bytes(b"no tar")
    assert "more.tar: damaged" in say(encode_verb, *command, "--key-ids").text
    left = say(encode_verb, "--parts", tmp_path / "parts", "--give-up", "more.tar")
    assert left.status == 0 and "5 of 6 files are finished, 1 given up" in left.text
    assert f"given up: {source}/more.tar: damaged" in " ".join(left.text.split())
    shown = say(encode_verb, "--parts", tmp_path / "parts", "--status")  # the folder says all that is needed
    assert shown.status == 0 and "5 of 6 files are finished, 1 given up; images: " in shown.text
    assert "in the time of encoding, all processes" in shown.text and "set aside" not in shown.text
    for arguments, lacking in (
        (["--parts", tmp_path / "parts"], ["COLLECTION: what is encoded", "--model: by what it is encoded"]),
        ([source, "--parts", tmp_path / "parts"], ["--model: by what it is encoded"]),
        (["--model", "pixels"], ["COLLECTION: what is encoded"]),
    ):
        wrong = say(encode_verb, *arguments)
        assert wrong.status == 2 and "encode: not given" in wrong.text, wrong.text
        assert [line[4:] for line in wrong.text.splitlines() if line.startswith("  - ")] == lacking
        assert "visir encode COLLECTION --model MODEL" in wrong.text
    left = say(encode_verb, *command, "--key-ids", "--json")
    assert left.status == 0 and list(left.json["given_up"]) == ["more.tar"] and left.json["files"] == 6
    wrong = say(encode_verb, *command, "--split", "test", "--merge")
    assert wrong.status == 2 and "--split does not go" in wrong.text and "--merge does not go" in wrong.text
    assert "name their folder" in say(encode_verb, source, "--model", "pixels", "--status").text


def test_pictures_that_were_set_aside_are_counted_by_the_status(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 3), tmp_path / "parts"
    for number, count in ((0, 1), (2, 2)):
        broken = {f"bad{row}.jpg": b"no picture" for row in range(count)}
        (source / f"{number:05}.tar").write_bytes(tar_of(members(number, 10) | broken))
    done = say(encode_verb, source, "--model", "pixels", "--parts", parts, "--skip-broken")
    assert "  3 broken pictures set aside; their parts list them" in done.text
    shown = say(encode_verb, "--parts", parts, "--status")
    assert "3 of 3 files are finished, 3 broken pictures set aside; images: " in shown.text
    assert say(encode_verb, "--parts", parts, "--status", "--json").json["broken"] == 3
    next((parts / "parts").glob("00000002-*")).unlink()  # it is to be made again: what it lacks does not count
    shown = say(encode_verb, "--parts", parts, "--status")
    assert "2 of 3 files are finished, 1 broken picture set aside" in shown.text


def test_what_was_set_aside_before_it_was_noted_is_counted_or_said_to_be_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    (source / "00001.tar").write_bytes(tar_of(members(1, 10) | {"a.jpg": b"no picture", "b.jpg": b"none"}))
    encode_parts(Means(), source, parts, skip_broken=True)
    shutil.rmtree(parts / "set-aside")
    for note in (parts / "leases").glob("*.made"):
        note.unlink()
    assert Parts(parts).status().broken == 2
    monkeypatch.setattr("visir.encoders.parts_folder.CARDS_READ", 1)
    assert Parts(parts).status().broken is None
    shown = say(encode_verb, "--parts", parts, "--status")
    said = (
        "2 of 2 files are finished, at least 0 broken pictures set aside (not counted in parts of an earlier version: "
    )
    assert said in shown.text
    (parts / "set-aside").mkdir()
    (note := parts / "set-aside" / f"{next((parts / 'parts').glob('00000001-*')).stem}.2").write_text("{}")
    monkeypatch.setattr("visir.encoders.parts_folder.CARDS_READ", 0)  # the other part has no note
    shown = say(encode_verb, "--parts", parts, "--status")
    assert "2 of 2 files are finished, at least 2 broken pictures set aside (not counted" in shown.text
    facts = say(encode_verb, "--parts", parts, "--status", "--json").json
    assert facts["broken"] is None and facts["broken_at_least"] == 2
    note.unlink()
    (source / "more.tar").write_bytes(tar_of(members(2, 3)))
    monkeypatch.setattr("visir.encoders.parts_folder.CARDS_READ", 2)  # a new part has its note, and needs no card
    assert encode_parts(Means(), source, parts).parts.status().broken == 2


def test_the_card_is_that_of_the_encoder(source: Path, tmp_path: Path) -> None:
    made = encode_parts("pixels", source, tmp_path / "parts")
    assert isinstance(made.parts.encoder, EncoderCard) and made.parts.encoder == load("pixels").stored_card


# -- after a kill, a cut, and a shortage


def test_a_killed_one_on_this_machine_is_known_to_be_dead_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    worker = start(source, parts, pause=0.4, lease=120)
    until(lambda: lease_states(open_place(parts)))
    (held,) = lease_states(open_place(parts)).values()
    running = Parts(parts).status().running
    worker.kill()
    worker.communicate()
    status = Parts(parts).status()
    assert len(running) == 1 and (dict(status.running), [*status.expired]) == ({}, [*running])
    copy = (
        parts / "parts" / f".new-{held.part}.{held.generation:06}"
    )  # as if it had been killed while it copied its part
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"half")
    left = parts / "leases" / ".new-0a1b2c3d"
    left.write_bytes(b"half")
    strange = parts / "leases" / ".new-thesis"
    strange.write_bytes(b"mine")
    os.utime(left, (0, 0))
    made = encode_parts(Means(), source, parts)
    assert made.files == 2 and made.seconds < 60  # a lease is one of 120 s
    assert sorted(path.name for path in parts.rglob(".new-*")) == [".new-thesis"]
    assert not copy.exists() and not left.exists()


def test_what_was_half_written_is_cleared_away_wherever_it_is(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 1), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    for folder in ("", "files", "parts", "leases", "given-up", "set-aside", "sizes"):
        left = parts / folder / ".new-0a1b2c3d"
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
        os.utime(left, (0, 0))
    encode_parts(Means(), source, parts)
    assert not list(parts.rglob(".new-*"))


def test_a_process_that_cannot_be_seen_is_not_called_dead() -> None:
    own = claims._this_process()
    machine, number, started = own.split("/")
    assert not any(map(claims.is_gone, ("", own, f"another:1/{number}/{started}")))
    assert claims.is_gone(f"{machine}/{number}/1") and claims.is_gone(f"{machine}/{2**22 + 1}/{started}")


def test_a_part_that_was_cut_later_is_named_by_the_status(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2), tmp_path / "parts"
    encode_parts(Means(), source, parts)
    first, _ = sorted((parts / "parts").iterdir())
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    with refused(EmbeddingError, first.name, f"{len(whole):,}", "00000.tar", code="damaged", hint="run the same"):
        Parts(parts).status()
    first.unlink()
    assert encode_parts(Means(), source, parts).files == 1 and first.read_bytes() == whole
    assert Parts(parts).status().is_complete


def test_beside_a_cut_part_the_others_are_counted(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 3), tmp_path / "parts"
    (source / "00002.tar").write_bytes(b"no tar")
    with refused(CollectionError, "00002.tar", code="could-not-encoded"):
        encode_parts(Means(), source, parts)
    first, _ = sorted((parts / "parts").iterdir())
    first.write_bytes(first.read_bytes()[:40])
    shown = say(encode_verb, "--parts", parts, "--status")
    assert shown.status == 2 and "1 of 3 files are finished" in shown.text and "failed: " in shown.text
    assert "40 of " in shown.text and "(00000.tar)" in shown.text
    with refused(EmbeddingError, "00000.tar: has its part, which was cut", "run the same", hint="--status"):
        Parts(parts).give_up("00000.tar")
    left = say(encode_verb, "--parts", parts, "--give-up", "00002.tar")
    assert left.status == 2 and "1 of 3 files are finished, 1 given up" in left.text


def test_pictures_that_were_set_aside_are_tried_again_when_asked(tmp_path: Path) -> None:
    source, parts = shards(tmp_path / "in", 2, 3), tmp_path / "parts"

    class Short(Means):
        is_short = True

        def preprocess(self, image: Image.Image) -> Any:
            if self.is_short and image.getpixel((0, 0)) == (0, 1, 3):
                raise ImageError("no room for it")
            return super().preprocess(image)

    encoder = Short()
    first = encode_parts(encoder, source, parts, skip_broken=True)
    assert (first.files, first.images, first.broken) == (2, 5, 1)
    encoder.is_short = False  # the cause has passed
    assert encode_parts(encoder, source, parts, skip_broken=True).files == 0
    assert encode_parts(encoder, source, parts, replace=True).files == 0  # one that still failed would lose its part
    again = encode_parts(encoder, source, parts, skip_broken=True, replace=True)
    assert (again.files, again.images, again.broken) == (1, 3, 0)
    assert Parts(parts).status().broken == 0 and sum(map(len, Parts(parts))) == 6


def test_what_a_living_writer_has_begun_is_not_cleared(tmp_path: Path) -> None:
    place = claims.open_place(tmp_path / "parts")
    first = PartLease.take(place, "00000", None, 120)
    assert first is not None
    begun = tmp_path / "parts" / parts_folder.FOLDER / f".new-{first.writer}"
    begun.parent.mkdir(exist_ok=True)
    begun.write_bytes(b"half")
    parts_folder.clear_away(place, 120)
    assert begun.exists()
    assert PartLease.take(place, "00000", first.state, 120) is not None  # somebody else has claimed the part since
    parts_folder.clear_away(place, 120)
    assert not begun.exists()
