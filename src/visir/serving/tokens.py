"""Tokens: who may do what, in a folder with one small file for each, which holds its hash only.

A token is 256 random bits, shown once, when it is made. Its file has its SHA-256: a reader of the file cannot use it,
and a slow password hash would protect nothing more, because there is nothing to guess.

A folder, because a container that has a single file mounted keeps the old file when it is replaced. What
counts is what the folder's manifest names: adding and revoking are one change of it, made by one process at a time.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from visir.errors import VisirError, nearest, raise_faults
from visir.files import read_json
from visir.storage import FolderKind, Manifest, changing
from visir.storage.claims import check_local
from visir.storage.disk import to_disk

SCOPES = ("search", "admin", "score")
"""Of a library: search and look; update and take out (it alone does not search). Of purchase scores: post events."""
SUFFIX = ".token"
_FIELDS = ("name", "sha256", "scopes", "made", "expires")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

_BUSY = "{}: another process is changing these tokens; waiting for it"


class TokenError(VisirError):
    """The folder of tokens is not as it should be, or a request for a token is wrong."""


KIND = FolderKind(
    "tokens", "a folder of tokens", remedy="make a token: visir library token new FOLDER --name NAME", error=TokenError
)


@dataclass(frozen=True)
class Token:
    """What a token's file says of it."""

    name: str  # whose it is, or what for
    sha256: str  # the hash of the secret
    scopes: frozenset[str]  # among `SCOPES`
    made: datetime  # when it was made, UTC
    # The moment from which it is refused, UTC; None for never. This is the one place of visir that believes the clock:
    # a clock that jumps forward refuses too early, one that jumps back too late.
    expires: datetime | None = None

    def expired(self, now: datetime | None = None) -> bool:
        """Whether its time is over."""
        return self.expires is not None and (now or datetime.now(UTC)) >= self.expires


def read_tokens(folder: Path) -> tuple[list[Token], list[str]]:
    """The tokens of a folder by name, and what is wrong with files that count but cannot be used."""
    if folder.is_file():
        raise TokenError(
            f"{folder}: is a file; tokens are kept in a folder, with a file for each.",
            hint="make them anew: visir library token new FOLDER --name NAME",
            code="is-a-file",
        )
    manifest = Manifest.read(folder, KIND)
    tokens, faults = [], []
    for file in sorted(manifest.files):
        if not (folder / file).exists():
            continue  # removed by hand: revoked too
        try:
            if not manifest.is_unchanged(folder, file):
                raise ValueError("cannot be read, or is not as visir wrote it")
            token = _read(read_json(folder / file))
            if file != token.name + SUFFIX:
                raise ValueError(f"holds the token {token.name!r}")
            tokens.append(token)
        except (ValueError, KeyError, TypeError, VisirError) as fault:
            faults.append(f"{folder / file}: {fault}")
    return tokens, faults


def new_token(folder: Path, name: str, scopes: list[str], days: float | None) -> str:
    """Add a token to a folder (made if need be) and return it: it is shown this once and written nowhere."""
    faults = [f"unknown scope {scope!r} ({nearest(scope, SCOPES)})" for scope in scopes if scope not in SCOPES]
    if not _NAME.fullmatch(name):
        faults.append(f"the name {name!r} is not one of letters, digits, . _ @ - (at most 64)")
    if not scopes:
        faults.append(f"no scope is given (--scope {' or '.join(SCOPES)})")
    if days is not None and not 0 < days <= 36_500:
        faults.append(f"--days must be between 0 and 36500, not {days}")
    raise_faults(TokenError, "token", faults)
    secret, now = f"visir_{secrets.token_urlsafe(32)}", datetime.now(UTC).replace(microsecond=0)
    expires = None if days is None else now + timedelta(days=days)
    add_token(folder, Token(name, hash_of(secret), frozenset(scopes), now, expires))
    return secret


def add_token(folder: Path, token: Token) -> None:
    """Write a token into a folder. A folder that is made now is its owner's alone; files take the folder's rights."""
    check_local(folder, TokenError)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        read_tokens(folder)
        raise
    except OSError as fault:
        raise TokenError(f"{folder}: cannot be made ({fault.strerror}).", hint="name another folder") from fault
    with changing(folder, KIND, busy=_BUSY.format(folder)) as change:
        if token.name + SUFFIX in change.manifest.files and (folder / (token.name + SUFFIX)).exists():
            raise TokenError(
                f"{folder}: there is a token {token.name!r} already.",
                hint="revoke it first, or choose another name",
                code="token-already",
            )
        change.write_json(token.name + SUFFIX, _written(token))


def revoke_token(folder: Path, name: str) -> None:
    """Take a token out of a folder; a running service refuses it within a second."""
    # Its file goes first. That alone revokes it and takes no room, so a full disk keeps no token alive: then the
    # manifest names a file that is not there until the next change.
    if folder.is_file():
        read_tokens(folder)
    manifest, file = Manifest.read(folder, KIND), name + SUFFIX
    if file not in manifest.files:
        raise TokenError(
            f"{folder}: no token {name!r}.",
            hint=nearest(name, [file_name.removesuffix(SUFFIX) for file_name in manifest.files]),
            code="no-token",
        )
    manifest.remove(folder, [file])
    try:
        with changing(folder, KIND, busy=_BUSY.format(folder), make=False) as change:
            change.drop(file)
            change.commit()
    except VisirError as fault:
        if (folder / file).exists():
            raise TokenError(
                f"{fault.message} The token {name!r} is still there.",
                hint=f"{fault.hint}; or remove the file {folder / file} by hand: that revokes it too",
            ) from fault
        to_disk(folder)


class TokenFolder:
    """The tokens of a folder, read anew when its content has changed (looked at once a second)."""

    # A folder that cannot be read, or is damaged, admits nobody until it is repaired: to go on with the earlier tokens
    # would keep a token alive that was just revoked. A damaged file costs its own token alone.

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen = self._state()
        self._tokens, faults = read_tokens(folder)
        self._looked = 0.0
        self.fault = "; ".join(faults)

    def holder(self, secret: str, now: float) -> Token | None:
        """The token with this secret, expired or not; None for an unknown one. `now` is of a monotonic clock."""
        if now - self._looked >= 1:
            self._looked = now
            self._look()
        presented, holder = hash_of(secret), None
        for token in self._tokens:  # all of them, each in constant time: how long it takes says nothing
            if hmac.compare_digest(token.sha256, presented):
                holder = token
        return holder

    def _look(self) -> None:
        state = self._state()  # before it is read: what changes meanwhile is seen at the next look
        if state == self._seen:
            return
        self._seen = state
        try:
            self._tokens, faults = read_tokens(self.folder)
            self.fault = "; ".join(faults)
        except (VisirError, OSError) as fault:
            self._tokens, self.fault = [], str(fault)

    def _state(self) -> list[tuple[str, int, int]] | None:
        """The folder's files: which there are, and when each was last touched (its rights count too)."""
        try:
            with os.scandir(self.folder) as entries:
                status = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return None
        return sorted((name, file.st_ino, file.st_ctime_ns) for name, file in status)


def hash_of(secret: str) -> str:
    """What is kept of a token."""
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _read(entry: Any) -> Token:
    if not isinstance(entry, dict) or set(entry) != set(_FIELDS):
        raise ValueError(f"the fields must be {', '.join(_FIELDS)}")
    if not re.fullmatch("[0-9a-f]{64}", entry["sha256"]):
        raise ValueError("sha256 is not 64 hexadecimal digits")
    scopes = frozenset(entry["scopes"])
    if not scopes or not scopes <= set(SCOPES):
        raise ValueError(f"scopes must be among {', '.join(SCOPES)}")
    if not _NAME.fullmatch(entry["name"]):
        raise ValueError(f"the name {entry['name']!r} is not one of letters, digits, . _ @ -")
    expires = entry["expires"]
    return Token(
        entry["name"], entry["sha256"], scopes, _moment(entry["made"]), None if expires is None else _moment(expires)
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _written(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "sha256": token.sha256,
        "scopes": [scope for scope in SCOPES if scope in token.scopes],
        "made": token.made.isoformat(),
        "expires": None if token.expires is None else token.expires.isoformat(),
    }
