"""How a message shows the address of a server: without what may be a secret, though the address be wrong."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MARK = re.compile("[?#;]")


def without_secret(url: str) -> str:
    """An address, right or wrong, as a message may show it: without what may be a secret."""
    # That is what stands before "@" and behind "?", "#" or ";". Of an address that cannot be told apart from its secret
    # (the port is no number, a space, "@" or "=" stands where no address has one), no more than the scheme is shown.
    start = _SCHEME.match(url)
    scheme = start[0] if start else ""
    address, mark, rest = _cut(url.removeprefix(scheme))
    _, at, shown = address.rpartition("@")
    no_port = any(_is_no_port(part) for part in shown.split("/"))
    broken = not scheme and ("//" in shown or ":/" in shown)
    spaced = any(letter.isspace() for letter in url)
    if "=" in address or "@" in rest or (at and not scheme) or no_port or broken or spaced:
        return f"{scheme}…"
    return f"{scheme}{at and '…@'}{shown}{mark and f'{mark}…'}"


def _is_no_port(part: str) -> bool:
    """Whether something else than a number follows a ":" here, in whatever part of an address."""
    port = part.rpartition("]")[2].partition(":")[2]
    return bool(port) and not (port.isascii() and port.isdecimal())


def _cut(address: str) -> tuple[str, str, str]:
    """What is before the first "?", "#" or ";" of an address, which of them it is, and what follows."""
    mark = _MARK.search(address)
    return (address[: mark.start()], mark[0], address[mark.end() :]) if mark else (address, "", "")
