"""`visir encode` in several processes: by plain environment variables, and under the launchers themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from verbs import Said, say
from visir.cli.encode import encode

SCENES = ("scenes:20?size=64", "--model", "pixels", "--batch-size", "4", "--modality", "image")


def vectors(cache: Path) -> bytes:
    (found,) = cache.rglob("vectors.npy")
    return found.read_bytes()


@pytest.fixture
def single(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What one process makes."""
    with monkeypatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(tmp_path / "single"))
        assert say(encode, *SCENES).status == 0
    return vectors(tmp_path / "single")


def process(monkeypatch: pytest.MonkeyPatch, rank: int, count: int, *arguments: object) -> Said:
    with monkeypatch.context() as patch:
        for name, value in (("RANK", rank), ("WORLD_SIZE", count), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", count)):
            patch.setenv(name, str(value))
        return say(encode, *SCENES, *arguments)


def test_each_process_takes_its_part_and_the_last_one_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single: bytes
) -> None:
    second = process(monkeypatch, 1, 2)
    # 20 images in batches of 4: five steps, ⌊5/2⌋ = 2 of them to the first process, 3 to the second
    assert second.text.startswith("images, shard 2/2: 12 of 20, 12 encoded in")
    assert "1 of 2 shards are finished" in second.text and second.text.count("\n") == 1
    again = process(monkeypatch, 1, 2)
    assert again.text == "images, shard 2/2: 12 of 20, finished already; 1 of 2 shards are finished\n"
    first = process(monkeypatch, 0, 2)
    assert "scenes: 20 images, 100 captions" in first.text
    assert "images, shard 1/2: 8 of 20, 8 encoded in" in first.text and "2 of 2 shards are finished" in first.text
    assert "images: 20 × 2,397" in first.text
    assert vectors(tmp_path / "cache") == single
    assert "joined with the others already" in process(monkeypatch, 1, 2).text
    assert "images: 20 × 2,397, found in the store" in process(monkeypatch, 0, 2).text
    assert "images: 20 × 2,397, found in the store" in say(encode, *SCENES).text


def test_machines_that_share_nothing_but_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single: bytes
) -> None:
    place = tmp_path / "place"
    for number in (1, 2):
        monkeypatch.setenv("VISIR_CACHE", str(tmp_path / f"machine {number}"))
        made = say(encode, *SCENES, "--shard", f"{number}/2", "--shards", place)
        assert made.status == 0 and f"{number} of 2 shards are finished" in made.text
    assert f"all 2 image shards are in {place}; join them: visir encode … --merge --shards {place}" in made.text
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "machine 3"))
    joined = say(encode, *SCENES, "--merge", "--shards", place, "--out", tmp_path / "out")
    assert joined.status == 0 and "images: 20 × 2,397" in joined.text
    assert vectors(tmp_path / "machine 3") == single
    assert (tmp_path / "out" / "image.npy").is_file()
    missing = say(encode, "scenes:21?size=64", *SCENES[1:], "--merge", "--shards", place)
    assert missing.status == 2 and "of another collection (scenes" in missing.text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--shard", "1/2", "--merge"), "shards are joined when all are made"),
        (("--shards", "place"), "there is nothing to divide"),
        (("--shard", "1/2", "--out", "out"), "the same command without a launcher writes the whole"),
        (("--shard", "3/2"), "the third of sixteen is 3/16"),
        (("--merge",), "there are no shards of these inputs (image)"),
    ],
)
def test_contradictions(arguments: tuple[str, ...], fault: str) -> None:
    said = say(encode, *SCENES, *arguments)
    assert said.status == 2 and fault in said.text


def launch(tmp_path: Path, *launcher: str) -> subprocess.CompletedProcess[str]:
    """`launcher … -m visir encode …` on two CPU processes, with a cache of its own."""
    environment = {name: one for name, one in os.environ.items() if not name.startswith(("MASTER_", "ACCELERATE_"))}
    environment |= {"VISIR_CACHE": str(tmp_path / "launched"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *launcher, "-m", "visir", "encode", *SCENES],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "launcher",
    [
        ("torch.distributed.run", "--nproc-per-node", "2"),
        ("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
    ],
    ids=["torchrun", "accelerate"],
)
def test_under_a_launcher(tmp_path: Path, single: bytes, launcher: tuple[str, ...]) -> None:
    for _ in range(2):
        done = launch(tmp_path, *launcher)
        assert done.returncode == 0, done.stderr
        assert vectors(tmp_path / "launched") == single
    assert "joined with the others already" in done.stdout


@pytest.mark.nightly
def test_accelerate_on_the_cpu_starts_one_process_and_that_is_refused(tmp_path: Path) -> None:
    done = launch(tmp_path, "accelerate.commands.launch", "--cpu", "--num_processes", "2")
    assert done.returncode != 0
    assert "accelerate launch was asked for several processes, but started this one alone" in done.stderr
    assert "torchrun --nproc-per-node 2 -m visir" in done.stderr


@pytest.mark.nightly
def test_after_kill_9_a_process_goes_on_inside_its_shard(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "visir", "encode", "scenes:3000?size=64", *SCENES[1:3], *SCENES[5:]]

    def start(cache: str, rank: int, count: int) -> subprocess.Popen[str]:
        environment = os.environ | {"VISIR_CACHE": str(tmp_path / cache), "RANK": str(rank), "WORLD_SIZE": str(count),
                                    "OMP_NUM_THREADS": "1"}  # fmt: skip
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    one = start("one", 0, 1)
    killed = start("two", 1, 2)
    while killed.poll() is None:
        if any((tmp_path / "two").rglob("*.npz")):
            killed.kill()
            break
        time.sleep(0.02)
    assert killed.wait() == -signal.SIGKILL, "finished before it could be killed: more scenes"
    both = [start("two", rank, 2) for rank in (0, 1)]  # at the same time: either may be the last
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "taken over from an interrupted run" in said[1][0]
    assert one.wait(300) == 0
    assert vectors(tmp_path / "two") == vectors(tmp_path / "one")
