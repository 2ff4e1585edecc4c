"""Tokens: who may search and who may change, in a file that holds their hashes only.

A token is 256 random bits, shown once, when it is made. The file has its SHA-256: nobody who reads the file can use it,
and a slow password hash would protect nothing more, because there is nothing to guess.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from visir.errors import VisirError, nearest, raise_faults
from visir.files import json_bytes, read_json
from visir.storage import write_new

SCOPES = ("search", "admin")
_FIELDS = ("name", "sha256", "scopes", "made", "expires")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class TokenError(VisirError):
    """The file of tokens, or what was asked of it, is not what it should be."""


@dataclass(frozen=True)
class Token:
    """What the file says of one token.

    - `scopes`: "search" (ask and look), "admin" (update, take out); admin alone does not search
    - `expires`: the moment from which it is refused, in UTC; None for never. This is the one place of visir that
      believes the clock: a clock that jumps forward refuses too early, one that jumps back too late
    """

    name: str
    sha256: str
    scopes: frozenset[str]
    made: datetime
    expires: datetime | None = None

    def expired(self, now: datetime | None = None) -> bool:
        """Whether its time is over."""
        return self.expires is not None and (now or datetime.now(UTC)) >= self.expires


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file, in its order; `TokenError` lists every fault."""
    try:
        content = read_json(path)
    except TokenError:
        raise
    except VisirError as fault:
        raise TokenError(fault.message, hint=f"make a token: visir token new {path} --name NAME") from fault
    listed = content.get("tokens") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise TokenError(f"{path}: not a file of tokens.", hint=f"visir token new {path} --name NAME")
    tokens, faults = [], []
    for at, entry in enumerate(listed, 1):
        try:
            tokens.append(_read(entry))
        except (ValueError, KeyError, TypeError) as fault:
            faults.append(f"token {at}: {fault}")
    names = [token.name for token in tokens]
    faults += [f"the name {name!r} stands twice" for name in sorted({one for one in names if names.count(one) > 1})]
    raise_faults(TokenError, str(path), faults, hint="mend the file, or make it anew with visir token new")
    return tokens


def new_token(path: Path, name: str, scopes: list[str], days: float | None) -> str:
    """Add a token to the file (made if need be) and return it: it is shown this once and written nowhere."""
    tokens = read_tokens(path) if path.exists() else []
    faults = [f"unknown scope {one!r} ({nearest(one, SCOPES)})" for one in scopes if one not in SCOPES]
    if not _NAME.fullmatch(name):
        faults.append(f"the name {name!r} is not one of letters, digits, . _ @ - (at most 64)")
    if name in {token.name for token in tokens}:
        faults.append(f"there is a token {name!r} already; revoke it first, or choose another name")
    if not scopes:
        faults.append(f"no scope is given (--scope {' or '.join(SCOPES)})")
    if days is not None and not 0 < days <= 36_500:
        faults.append(f"--days must be between 0 and 36500, not {days}")
    raise_faults(TokenError, "token", faults)
    secret, now = f"visir_{secrets.token_urlsafe(32)}", datetime.now(UTC).replace(microsecond=0)
    expires = None if days is None else now + timedelta(days=days)
    write_tokens(path, [*tokens, Token(name, _hash(secret), frozenset(scopes), now, expires)])
    return secret


def revoke_token(path: Path, name: str) -> None:
    """Take a token out of the file; a running service refuses it within a second."""
    tokens = read_tokens(path)
    if name not in {token.name for token in tokens}:
        raise TokenError(f"{path}: no token {name!r}.", hint=nearest(name, (token.name for token in tokens)))
    write_tokens(path, [token for token in tokens if token.name != name])


def write_tokens(path: Path, tokens: list[Token]) -> None:
    """Write the file, for its owner alone."""
    write_new(path, json_bytes({"tokens": [_written(token) for token in tokens]}), replace=True)
    path.chmod(0o600)


class Tokens:
    """The tokens of a file, read anew when the file has changed (looked at once a second).

    A file that cannot be read, or is damaged, admits nobody until it is mended: going on with the tokens of before
    would keep one alive that somebody has just revoked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tokens = read_tokens(path)
        self._seen = self._state()
        self._looked = 0.0
        self.fault = ""

    def holder(self, secret: str, now: float) -> Token | None:
        """Whose token this is, expired or not; None for nobody's. `now` is a monotonic clock's."""
        if now - self._looked >= 1:
            self._looked = now
            self._look()
        presented, holder = _hash(secret), None
        for token in self._tokens:  # all of them, each in constant time: how long it takes says nothing
            if hmac.compare_digest(token.sha256, presented):
                holder = token
        return holder

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._tokens, self.fault = read_tokens(self.path), ""
        except (VisirError, OSError) as fault:
            self._tokens, self.fault = [], str(fault)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _hash(secret: str) -> str:
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
