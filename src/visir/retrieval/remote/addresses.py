"""Which servers may be asked, and which of them gets the key.

A folder's manifest says where its vectors lie, and whoever made the folder wrote it. So an address counts only when the
user has named it: in the environment (`VISIR_QDRANT_URL`, `VISIR_PGVECTOR_URL`, `VISIR_MILVUS_URL`), or as a setting in
this very process (`--set url=…`, `build(…, url=…)`). The key goes to the addresses that stand beside it in the
environment; where none does, to those named in this process; never in clear over a network.
"""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from visir.errors import ConfigurationError
from visir.remote import is_loopback
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.settings import FAMILIES, EngineFamily, Place, family_of, grpc_address, host_of

_named: set[tuple[str, str, int]] = set()


def name_address(url: str, grpc: object = 0) -> None:
    """Record that the user has named this server in this process, and its gRPC port."""
    family = family_of(url)
    family.check_address(url)
    scheme, host, port = _server(url, family)
    _named.add((scheme, host, port))
    if grpc and str(grpc).isdecimal():
        _named.add((scheme, host, int(str(grpc))))


def is_named(url: str) -> bool:
    """Whether the user has named this server."""
    family = family_of(url)
    return _server(url, family) in _named | _trusted(family)


def check_named(url: str) -> None:
    """Check that the user has named this server; nothing is sent to other servers."""
    if is_named(url):
        return
    raise EngineError(
        f"{url}: the vectors lie on this server, which nobody has named here; nothing was sent to it.",
        hint=f"if you trust it, and whoever made the folder: {naming([url])}",
        code="vectors-lie-server-nobody",
    )


def naming(urls: Iterable[str]) -> str:
    """The command of a shell after which visir may ask these servers of one engine, and those that it may ask now."""
    added = list(urls)
    variable = family_of(added[0]).addresses
    return f"export {variable}={shlex.quote(' '.join([*os.environ.get(variable, '').split(), *added]))}"


def needed_later(indexes: Iterable[Mapping[str, Any]]) -> list[str]:
    """What other commands need before they may ask the servers of these indexes: a line for each engine."""
    # A server that this very command has named (`--set url=…`) is known to this process alone. There is no line where
    # the environment names it.
    servers: dict[tuple[str, str, int], str] = {}
    for settings in indexes:
        url, grpc = settings.get("url"), settings.get("grpc")
        # Where it is asked, and where vectors go up.
        for address in [url, *([grpc_address(Place(url=url, grpc=grpc))] if grpc else [])] if url else []:
            servers.setdefault(_server(address, family_of(address)), address)
    lines = []
    for family in FAMILIES:
        urls = [url for server, url in servers.items() if family_of(url) is family and server not in _trusted(family)]
        if urls:
            key = f"{family.key} as it is now, and " if any(map(secret_for, urls)) else ""
            lines.append(f"later commands need {key}this: {naming(urls)}")
    return lines


def secret_for(url: str) -> str | None:
    """Return the secret (an API key, a password) for this server, or None."""
    family = family_of(url)
    key, trusted = os.environ.get(family.key), _trusted(family)
    return key if key and _server(url, family) in (trusted or _named) else None


def key_for(url: str) -> str | None:
    """Return the key for a server whose address says by its scheme whether it is asked with TLS, or None."""
    family, key = family_of(url), secret_for(url)
    parts = urlsplit(url)
    if key is not None and parts.scheme != family.encrypted and not is_loopback(parts.hostname or ""):
        raise EngineError(
            f"{url}: the key ({family.key}) would be sent there in clear, without TLS.",
            hint=f"name the server by {family.encrypted}:// (a certificate of its own: {family.certificate}=FILE), "
            f"reach it through a tunnel on 127.0.0.1, or unset {family.key}",
            code="key-sent-clear-without",
        )
    return key


def why_no_key(url: str) -> str:
    """Return why a server that requires a secret got none, or did not accept it."""
    family = family_of(url)
    if not os.environ.get(family.key):
        return f"the environment variable {family.key} is not set"
    if secret_for(url) is None:
        where = family.addresses
        return f"{family.key} goes to {os.environ.get(where)} alone: add this address to {where} if it is for it too"
    return f"the environment variable {family.key} is set, and is not accepted"


def trust(url: str) -> ssl.SSLContext | bool:
    """What the server's certificate is checked against; nothing without TLS (to read all of them takes 25 ms)."""
    family = family_of(url)
    file = os.environ.get(family.certificate)
    encrypted = urlsplit(url).scheme == family.encrypted
    if not encrypted or not file:
        return encrypted
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigurationError(
            f"{family.certificate}: {file}: no certificates can be read there: {fault}",
            hint="name a PEM file",
            code="no-certificates-read",
        ) from fault


def _trusted(family: EngineFamily) -> set[tuple[str, str, int]]:
    servers = set()
    for url in os.environ.get(family.addresses, "").split():
        try:
            family.check_address(url)
        except ConfigurationError as fault:
            raise ConfigurationError(
                f"{family.addresses}: {fault.message}", hint=fault.hint, code=fault.code
            ) from fault
        servers.add(_server(url, family))
    return servers


def _server(url: str, family: EngineFamily) -> tuple[str, str, int]:
    """Which server an address leads to: how it is asked, its host and its port."""
    parts = urlsplit(url)
    scheme = parts.scheme if family.encrypted else family.name
    return scheme, host_of(url), parts.port or family.port
