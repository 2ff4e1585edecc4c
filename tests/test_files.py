"""Atomic writes, transparent decompression, errors and registry."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from refusals import refused
from visir.errors import CollectionError, VisirError, raise_faults
from visir.files import read_json, read_lines
from visir.registry import Registry
from visir.storage import new_file, write_new


def test_a_failed_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    write_new(target, b'{"a": 1}')
    with pytest.raises(RuntimeError), new_file(target, replace=True) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert read_json(target) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_lines_are_read_from_plain_and_compressed_files(tmp_path: Path, suffix: str) -> None:
    # U+2028 is a line separator to str.splitlines, and part of a caption to us.
    data = "one\r\ntwo \u2028 still two\n\nfour".encode()
    path = tmp_path / f"caps.txt{suffix}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](data))
    assert read_lines(path) == ["one", "two \u2028 still two", "", "four"]


def test_a_byte_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with refused(VisirError, "latin.txt", "2", "0xe9", code="text-not-utf-8"):
        read_lines(path)


def test_missing_and_broken_files_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "captions.json").write_text("{")
    with pytest.raises(VisirError, match=r"no such file[\s\S]*in that folder there is 'captions.json'"):
        read_json(tmp_path / "caption.json")
    with refused(VisirError, code="not-valid-json"):
        read_json(tmp_path / "captions.json")
    with pytest.raises(VisirError, match="a device or a pipe"):
        read_json("/dev/null")
    (tmp_path / "cut.json.xz").write_bytes(lzma.compress(b"[1, 2]")[:-8])
    with refused(VisirError, code="cannot-decompressed"):
        read_json(tmp_path / "cut.json.xz")


def test_the_registry_suggests_the_nearest_name_and_warns_on_overwrite() -> None:
    things: Registry[int] = Registry("measure")
    things.add("hit@k", 1)
    with refused(VisirError, "measure", "hits@k", code="unknown-name", meant="hit@k"):
        things.get("hits@k")
    with pytest.warns(UserWarning, match="registered twice"):
        things.add("hit@k", 2)
    assert list(things) == ["hit@k"]


def test_many_faults_are_counted() -> None:
    with pytest.raises(CollectionError, match=r"x \(30 faults\)[\s\S]*and 10 more"):
        raise_faults(CollectionError, "x", [f"fault {i}" for i in range(30)])
    raise_faults(CollectionError, "x", [])


def test_a_digest_leaves_out_what_is_nothing_but_zeros_and_does_not_ask_how_it_is_stored(tmp_path: Path) -> None:
    from hashlib import blake2b

    from visir.files import digest_of

    mib = 2**20
    plain, holes, filled = (tmp_path / name for name in ("plain", "holes", "filled"))
    plain.write_bytes(b"some bytes" * 200_000)
    assert digest_of(plain) == (2_000_000, blake2b(plain.read_bytes(), digest_size=16).hexdigest())
    with holes.open("wb") as stream:  # 0 1 2 3 4½: data in 1 and 3, zeros elsewhere
        for at in (1, 3):
            stream.seek(at * mib + 7)
            stream.write(b"data")
        stream.truncate(4 * mib + mib // 2)
    filled.write_bytes(holes.read_bytes())
    assert digest_of(holes) == digest_of(filled)
    seen = {digest_of(holes)}
    for at, byte in ((0, 1), (2 * mib, 1), (mib + 7, 0), (4 * mib + 9, 1)):  # a byte anywhere is another digest
        changed = bytearray(holes.read_bytes())
        changed[at] ^= byte or 255
        filled.write_bytes(changed)
        seen.add(digest_of(filled))
    whole = holes.read_bytes()
    for moved in (whole[mib:] + whole[:mib], whole + bytes(mib // 2), whole + bytes(mib)):  # the same data elsewhere
        filled.write_bytes(moved)
        seen.add(digest_of(filled))
    assert len(seen) == 8
    assert digest_of(tmp_path / "plain") != digest_of(holes)
