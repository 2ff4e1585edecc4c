"""Tars that were cut or damaged, or that hold links, made of any members: for every road that reads tars."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile

NO_END = r"\(?the mark of its end is missing\)?"
ENDED = "Compressed file ended before the end-of-stream marker was reached"
WITHIN = "(truncated within '.*'|unexpected end of data)"
CUTS = {
    "within-a-member.tar": WITHIN,
    "between-members.tar": NO_END,
    "without-the-mark.tar": NO_END,
    "empty.tar": "empty file",
    "empty.tar.gz": "empty file",
    "cut.tar.gz": ENDED,
    "cut-checksum.tar.gz": ENDED,
    "wrong-checksum.tar.gz": "CRC check failed",
    "without-the-mark.tar.gz": NO_END,
    "cut.tar.bz2": ENDED,
    "cut.tar.xz": ENDED,
}
"""The names of the cut tars, and the reason that an error gives (a regular expression)."""
PLAIN = {name: says for name, says in CUTS.items() if name.endswith(".tar")}
ADDS_THE_MARK = r"truncate -s \+1024 FILE\.tar adds it"


def tar_of(members: dict[str, bytes], mode: str = "w") -> bytes:
    """A whole tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return stream.getvalue()


def linked_tar(members: dict[str, bytes], hard: str, soft: str) -> bytes:
    """A whole tar that ends with a hard and a symbolic link to its first member, of these names."""
    stream = io.BytesIO(tar_of(members))
    with tarfile.open(fileobj=stream, mode="a") as tar:
        for name, kind in ((hard, tarfile.LNKTYPE), (soft, tarfile.SYMTYPE)):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, next(iter(members))
            tar.addfile(about)
    return stream.getvalue()


def cut_tar(name: str, members: dict[str, bytes]) -> bytes:
    """One of `CUTS`: two members or more, the last of which is longer than its header."""
    whole = tar_of(members)
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + -(-last.size // 512) * 512  # where the zeros begin
    packed, wrong = gzip.compress(whole), bytearray(gzip.compress(whole))
    wrong[-8] ^= 1  # the last 8 bytes are the checksum and the length
    return {
        "within-a-member.tar": whole[: last.offset_data + last.size // 2],
        "between-members.tar": whole[: last.offset],
        "without-the-mark.tar": whole[:end],
        "empty.tar": b"",
        "empty.tar.gz": b"",
        "cut.tar.gz": packed[: len(packed) // 2],
        "cut-checksum.tar.gz": packed[:-1],
        "wrong-checksum.tar.gz": bytes(wrong),
        "without-the-mark.tar.gz": gzip.compress(whole[:end]),
        "cut.tar.bz2": bz2.compress(whole)[:-6],
        "cut.tar.xz": lzma.compress(whole)[:-6],
    }[name]
