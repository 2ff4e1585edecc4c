"""Which servers may be asked, and which of them gets the key.

A folder's manifest says where its vectors lie, and whoever made the folder wrote it. So an address counts only when the
user has named it: in the environment (`VISIR_QDRANT_URL`), or as a setting in this very process (`--set url=…`,
`build(…, url=…)`). The key goes to the addresses that stand beside it in the environment; where none does, to those
named in this process; never in clear over a network.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import ssl
from urllib.parse import urlsplit

from visir.errors import ConfigurationError
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.settings import KEY, check_address

ADDRESSES = "VISIR_QDRANT_URL"
"""The environment variable with the servers that the user trusts, and that the key is for; spaces between several."""
CERTIFICATE = "VISIR_QDRANT_CERTIFICATE"
"""The environment variable with a PEM file of certificates to trust, for servers with one of their own."""
PORT = 6333
"""Of a server whose address names none, whatever its scheme."""
_named: set[tuple[str, str, int]] = set()


def name_address(url: str) -> None:
    """Record that the user has named this server in this process."""
    check_address(url)
    _named.add(_server(url))


def check_named(url: str) -> None:
    """Check that the user has named this server; nothing is sent to other servers.

    Raises:
        EngineError: The user has not named it.
    """
    if _server(url) in _named | _trusted():
        return
    raise EngineError(
        f"{url}: the vectors lie on this server, which nobody has named here; nothing was sent to it.",
        hint=f"if you trust it, and whoever made the folder: export {ADDRESSES}={shlex.quote(url)}",
    )


def key_for(url: str) -> str | None:
    """Return the API key for this server, or None.

    Raises:
        EngineError: The key would be sent over a network without encryption.
    """
    key, trusted = os.environ.get(KEY), _trusted()
    if not key or _server(url) not in (trusted or _named):
        return None
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise EngineError(
            f"{url}: the key ({KEY}) would be sent there in clear, over plain HTTP.",
            hint=f"name the server by https:// (a certificate of its own: {CERTIFICATE}=FILE), reach it through a "
            f"tunnel on 127.0.0.1, or unset {KEY}",
        )
    return key


def why_no_key(url: str) -> str:
    """Return why a server that requires a key got none, or did not accept it."""
    if not os.environ.get(KEY):
        return f"the environment variable {KEY} is not set"
    if key_for(url) is None:
        return f"{KEY} goes to {os.environ.get(ADDRESSES)} alone: add this address to {ADDRESSES} if it is for it too"
    return f"the environment variable {KEY} is set, and is not accepted"


def trust(url: str) -> ssl.SSLContext | bool:
    """What the server's certificate is checked against; nothing without TLS (to read all of them takes 25 ms)."""
    file = os.environ.get(CERTIFICATE)
    if urlsplit(url).scheme != "https" or not file:
        return urlsplit(url).scheme == "https"
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigurationError(
            f"{CERTIFICATE}: {file}: no certificates can be read there: {fault}", hint="name a PEM file"
        ) from fault


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host of this name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _trusted() -> set[tuple[str, str, int]]:
    servers = set()
    for url in os.environ.get(ADDRESSES, "").split():
        try:
            check_address(url)
        except ConfigurationError as fault:
            raise ConfigurationError(f"{ADDRESSES}: {fault.message}", hint=fault.hint) from fault
        servers.add(_server(url))
    return servers


def _server(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORT
