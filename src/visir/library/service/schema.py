"""The HTTP interface as OpenAPI, without a library and without a server."""

from __future__ import annotations

from typing import Any


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the service: paths, bodies, answers, errors, tokens.

    It is what a service with tokens shows at `/v1/openapi.json`, whichever libraries it serves.

    Raises:
        MissingPackageError: The packages of the extra `serve` are not installed.

    Example:
        >>> import visir
        >>> schema = visir.library.openapi()
        >>> sorted(schema["paths"])[:3]
        ['/v1/health', '/v1/libraries', '/v1/libraries/{library}/categories']
    """
    from visir.errors import require

    require("fastapi", "prometheus_client", extra="serve", purpose="the description of the service")
    from visir.library.service.app import describe, described_app

    return describe(described_app(), with_tokens=True)
