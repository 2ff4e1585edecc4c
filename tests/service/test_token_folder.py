"""Tokens: a folder of hashes, where revoking reaches whoever has that folder mounted, and many may write at once."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from refusals import refused
from visir.serving.tokens import (
    SUFFIX,
    Token,
    TokenError,
    TokenFolder,
    add_token,
    hash_of,
    new_token,
    read_tokens,
)
from visir.serving.tokens import revoke_token as revoke
from visir.storage import MANIFEST

HOLDERS = """
import sys, time
from pathlib import Path
from visir.serving.tokens import TokenFolder

tokens = TokenFolder(Path(sys.argv[1]))
print("ready", flush=True)
for at, line in enumerate(sys.stdin, 1):
    holder = tokens.holder(line.strip(), 10.0 * at)  # each look is more than a second after the one before
    print("nobody" if holder is None else holder.name, flush=True)
"""


def can(*command: str) -> bool:
    """Whether this process may run a command (mounts want a root with all its rights)."""
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


def names(folder: Path) -> list[str]:
    tokens, faults = read_tokens(folder)
    assert not faults
    return [token.name for token in tokens]


@contextmanager
def service(*command: str) -> Iterator[Callable[[str], str]]:
    """A process that holds the tokens of a folder open, as a service does: from a secret to the name of its holder."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout

        def ask(secret: str) -> str:
            assert process.stdin and process.stdout
            process.stdin.write(secret + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert process.stdout.readline() == "ready\n"
        yield ask
        process.stdin.close()


def test_a_folder_holds_hashes_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    secret = new_token(folder, "anna", ["search"], None)
    assert secret.startswith("visir_") and len(secret) > 40
    assert folder.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"anna{SUFFIX}", MANIFEST]
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0 and secret not in path.read_text()
    new_token(folder, "robot", ["admin"], 1)
    tokens = TokenFolder(folder)
    holder = tokens.holder(secret, 0.0)
    assert holder is not None and holder.name == "anna" and holder.scopes == {"search"} and not holder.expired()
    assert tokens.holder(secret + "x", 0.0) is None and tokens.holder("", 0.0) is None
    robot = read_tokens(folder)[0][1]
    assert not robot.expired() and robot.expired(datetime.now(UTC) + timedelta(days=1, seconds=1))
    revoke(folder, "anna")
    assert tokens.holder(secret, 0.5) is not None  # looked at once a second
    assert tokens.holder(secret, 1.5) is None


def test_the_last_token_can_be_revoked_and_another_made(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    new_token(folder, "visir", ["search"], None)  # a name as that of the manifest
    revoke(folder, "visir")
    assert names(folder) == []
    new_token(folder, "visir", ["search"], None)
    assert names(folder) == ["visir"]


@pytest.mark.parametrize("mounted", [True, False], ids=["bind mount", "second path"])
def test_a_revoked_token_is_refused_where_its_folder_is_mounted(tmp_path: Path, mounted: bool) -> None:
    """As in a container, which has its own table of mounts: through a file that is mounted alone, it lived on."""
    folder, inside = tmp_path / "tokens", tmp_path / "inside"
    anna, bert = new_token(folder, "anna", ["search"], None), new_token(folder, "bert", ["search"], None)
    run = [sys.executable, "-c", HOLDERS, str(inside)]
    if mounted:
        if not can("unshare", "-m", "true"):
            pytest.skip("this process may not mount")
        inside.mkdir()
        script = 'mount --bind -o ro "$0" "$1" && shift && exec "$@"'
        run = ["unshare", "-m", "sh", "-c", script, str(folder), str(inside), *run]
    else:
        inside.symlink_to(folder, target_is_directory=True)
    with service(*run) as ask:
        assert [ask(anna), ask(bert)] == ["anna", "bert"]
        if mounted:
            assert not any(inside.iterdir())  # there alone
        revoke(folder, "anna")
        assert [ask(anna), ask(bert)] == ["nobody", "bert"]
        carl = new_token(folder, "carl", ["search"], None)
        assert [ask(carl), ask(anna), ask(bert)] == ["carl", "nobody", "bert"]
        (folder / f"bert{SUFFIX}").unlink()  # by hand
        assert [ask(carl), ask(bert)] == ["carl", "nobody"]


def test_twelve_at_once_all_survive(tmp_path: Path) -> None:
    """Eight make a token, four revoke one, each in a process of its own."""
    folder, go = tmp_path / "tokens", tmp_path / "go"
    for number in range(4):
        new_token(folder, f"old-{number}", ["search"], None)
    start = (
        "import sys, time; from pathlib import Path; from visir.serving.tokens import new_token, revoke_token\n"
        "while not Path(sys.argv[1]).exists(): time.sleep(0.001)\n"
        "folder, verb, name = Path(sys.argv[2]), sys.argv[3], sys.argv[4]\n"
        "new_token(folder, name, ['search'], None) if verb == 'new' else revoke_token(folder, name)"
    )
    asked = [("new", f"new-{number}") for number in range(8)] + [("revoke", f"old-{number}") for number in range(4)]
    running = [
        subprocess.Popen([sys.executable, "-c", start, str(go), str(folder), *one], stderr=subprocess.PIPE, text=True)
        for one in asked
    ]
    time.sleep(1.5)  # most of them have started by then, on any machine
    go.touch()
    for process in running:
        _, fault = process.communicate(timeout=120)
        assert process.returncode == 0, fault
    assert names(folder) == [f"new-{number}" for number in range(8)]


def test_twelve_first_ones_at_once_all_survive(tmp_path: Path) -> None:
    """The folder is made by whoever comes first."""
    from concurrent.futures import ThreadPoolExecutor

    for attempt in range(5):
        folder = tmp_path / str(attempt)
        with ThreadPoolExecutor(12) as pool:
            list(
                pool.map(lambda number, folder=folder: new_token(folder, f"t{number:02}", ["search"], None), range(12))
            )
        assert names(folder) == [f"t{number:02}" for number in range(12)]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_ownership_and_rights_stay(tmp_path: Path) -> None:
    """Root makes tokens for the user of a container: who may read the folder may read them, and nobody else."""
    folder = tmp_path / "tokens"
    folder.mkdir()
    folder.chmod(0o750)
    os.chown(folder, 10001, 10002)
    new_token(folder, "anna", ["search"], None)
    (folder / f"anna{SUFFIX}").chmod(0o600)
    new_token(folder, "bert", ["search"], None)
    revoke(folder, "bert")
    new_token(folder, "carl", ["search"], None)
    there = {path.name: path.stat() for path in folder.iterdir()}
    assert {(status.st_uid, status.st_gid) for status in there.values()} == {(10001, 10002)}
    modes = {name: oct(status.st_mode & 0o777) for name, status in there.items()}
    assert modes == {f"anna{SUFFIX}": "0o600", f"carl{SUFFIX}": "0o640", MANIFEST: "0o640"}
    assert folder.stat().st_mode & 0o777 == 0o750


def test_what_is_put_back_or_added_by_hand_admits_nobody(tmp_path: Path) -> None:
    """Only what the manifest names counts: as after a kill between the two steps of revoking."""
    folder = tmp_path / "tokens"
    anna, bert = new_token(folder, "anna", ["search"], None), new_token(folder, "bert", ["search"], None)
    content = (folder / f"anna{SUFFIX}").read_bytes()
    revoke(folder, "anna")
    (folder / f"anna{SUFFIX}").write_bytes(content)
    (folder / f"carl{SUFFIX}").write_bytes(content)
    tokens = TokenFolder(folder)
    assert tokens.holder(anna, 0.0) is None and tokens.holder(bert, 0.0) is not None
    with refused(TokenError, code="already-visir-not-write"):
        new_token(folder, "carl", ["search"], None)


def test_a_damaged_folder_admits_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    secret = new_token(folder, "anna", ["search"], None)
    manifest = folder / MANIFEST
    tokens, before = TokenFolder(folder), manifest.read_bytes()
    manifest.write_bytes(b"{")
    assert tokens.holder(secret, 2.0) is None and "not valid JSON" in tokens.fault
    manifest.write_bytes(before)
    assert tokens.holder(secret, 4.0) is not None and tokens.fault == ""
    manifest.write_bytes(before.replace(b'"generation": 1', b'"generation": 9'))
    assert tokens.holder(secret, 6.0) is None and "not as visir wrote it" in tokens.fault
    shutil.rmtree(folder)
    assert tokens.holder(secret, 8.0) is None and "no such folder" in tokens.fault


def test_a_damaged_file_costs_its_own_token_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    anna, bert = new_token(folder, "anna", ["search"], None), new_token(folder, "bert", ["search"], None)
    tokens, path = TokenFolder(folder), folder / f"anna{SUFFIX}"
    path.write_text(path.read_text().replace('"search"', '"admin"'))
    assert tokens.holder(anna, 2.0) is None and tokens.holder(bert, 2.0) is not None
    assert "not as visir wrote it" in tokens.fault and str(path) in tokens.fault
    listed, faults = read_tokens(folder)
    assert [token.name for token in listed] == ["bert"] and len(faults) == 1
    revoke(folder, "anna")  # its file stays, as somebody else's: and counts for nothing
    assert path.exists() and names(folder) == ["bert"]


def test_faults_of_tokens(tmp_path: Path) -> None:
    folder, now = tmp_path / "tokens", datetime.now(UTC)
    with refused(TokenError, "3", "faults", hint=False) as fault:
        new_token(folder, "a b", ["serch"], -1)
    assert "did you mean 'search'?" in str(fault.value) and not folder.exists()
    new_token(folder, "anna", ["search"], None)
    with refused(TokenError, "anna", code="token-already"):
        new_token(folder, "anna", ["search"], None)
    with refused(TokenError, "ana", code="no-token") as fault:
        revoke(folder, "ana")
    assert "did you mean 'anna'?" in str(fault.value)
    add_token(folder, Token("root", hash_of("x"), frozenset({"root"}), now))
    add_token(folder, Token("plain", "x", frozenset({"search"}), now))
    listed, faults = read_tokens(folder)
    assert [token.name for token in listed] == ["anna"]
    assert "sha256 is not 64" in faults[0] and "scopes must be among" in faults[1]


def test_a_file_of_tokens_is_refused_and_left(tmp_path: Path) -> None:
    """As visir kept them before."""
    path = tmp_path / "tokens.json"
    path.write_text('{"tokens": []}')
    for act in (
        read_tokens,
        TokenFolder,
        lambda path: new_token(path, "a", ["search"], None),
        lambda path: revoke(path, "a"),
    ):
        with refused(TokenError, code="is-a-file"):
            act(path)
    assert path.read_text() == '{"tokens": []}'


def visir_token(*arguments: object, room: int | None = None) -> subprocess.CompletedProcess[str]:
    """The verb in a process of its own; `room`: how many bytes a file may have there (a full disk, for everybody)."""
    command = [sys.executable, "-m", "visir", "library", "token", *map(str, arguments)]
    limit = None if room is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=120)


def test_a_full_disk_is_told_and_costs_no_token(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    secret = new_token(folder, "anna", ["search"], None)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for room in (0, 20, 100, 300):
        done = visir_token("new", folder, "--name", "bert", room=room)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert "cannot be written" in done.stderr and "make room" in done.stderr and not done.stdout
        assert names(folder) == ["anna"] and TokenFolder(folder).holder(secret, 0.0) is not None
    assert visir_token("new", folder, "--name", "bert").returncode == 0
    assert names(folder) == ["anna", "bert"]
    revoke(folder, "bert")
    assert set(before) == {path.name for path in folder.iterdir()}


def test_a_full_disk_of_its_own(tmp_path: Path) -> None:
    """A real file system with no byte left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can("unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)):
        pytest.skip("this process may not mount")
    script = """
        mount -t tmpfs -o size=32k tmpfs "$1" && cd "$1" && token() { "$0" -m visir library token "$@"; }
        token new tokens --name anna > secret || exit 90
        cat /dev/zero > filling 2> /dev/null
        token new tokens --name bert; echo "bert $?"
        token revoke tokens --name anna; echo "anna $?"
        token list tokens || exit 91
        : > filling
        token new tokens --name anna > secret; echo "again $?"
        mount -o remount,ro "$1" && cd "$1"
        token revoke tokens --name anna; echo "sealed $?"
        token list tokens
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable, str(disk)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "bert 2" in lines and "anna 0" in lines and "again 0" in lines, done.stdout
    assert done.stderr.count("No space left on device") == 1, done.stderr
    listed = [number for number, line in enumerate(lines) if line.strip().startswith("anna ") and "search" in line]
    assert len(listed) == 1 and listed[0] > lines.index("sealed 2"), done.stdout  # it counts again, and still does
    assert "'anna' is still there" in done.stderr and "remove the file" in done.stderr, done.stderr


@pytest.mark.parametrize("room", [0, 20, 100, 300])
def test_a_full_disk_keeps_no_token_alive(tmp_path: Path, room: int) -> None:
    """Revoking takes no room; the next change mends the manifest, and the name is free for another token at once."""
    folder = tmp_path / "tokens"
    secret, other = (new_token(folder, name, ["search"], None) for name in ("anna", "bert"))
    held = TokenFolder(folder)
    done = visir_token("revoke", folder, "--name", "anna", room=room)
    assert done.returncode == 0, done.stderr
    assert held.holder(secret, 10.0) is None and held.holder(other, 10.0) is not None
    assert names(folder) == ["bert"]
    again = new_token(folder, "anna", ["search"], None)
    assert held.holder(secret, 20.0) is None and held.holder(again, 20.0) is not None
