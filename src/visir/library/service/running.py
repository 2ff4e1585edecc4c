"""Serving libraries: until a signal stops it, or beside other work (a notebook, a script, a test)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import require
from visir.library.service.settings import ServiceSettings, settings_of_host
from visir.serving.logs import ServiceLog
from visir.serving.server import ServerThread, listening, require_packages, serve_app

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


def serve(
    settings: ServiceSettings,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    log: ServiceLog | None = None,
    callback: Callable[[str], object] = lambda message: None,
) -> None:
    """Serve until a signal stops it; `ready` is called with the address once requests are answered."""
    from visir.library.service.app import create_app

    log = log or ServiceLog(queries=settings.log_queries)
    waiting = listening(host, port)
    serve_app(lambda log: create_app(settings, log=log, callback=callback), settings, waiting, ready, log)


class RunningService(ServerThread):
    """A service in a thread of this process. As a context manager it stops at the end of the block.

    Attributes:
        url: Its address, "http://127.0.0.1:8765/".

    Example:
        >>> import visir
        >>> from PIL import Image
        >>> Path("photos").mkdir()
        >>> Image.new("RGB", (64, 48), "red").save("photos/red.png")
        >>> service = visir.index("photos", "pixels").serve(port=0, background=True)
        >>> service.is_alive, service.stop(), service.is_alive
        (True, None, False)
    """

    @classmethod
    def start(
        cls,
        libraries: Sequence[str | Path],
        *,
        host: str = "127.0.0.1",
        port: int = 8765,
        loaded: dict[str, Encoder] | None = None,
        **settings: Any,
    ) -> RunningService:
        """Serve libraries; returns once they are served.

        Args:
            libraries: Their folders.
            host: The address to listen on.
            port: 0 takes one that is free.
            loaded: Encoders in memory, by name.
            settings: Further fields of `ServiceSettings`.

        Raises:
            ConfigurationError: The port is in use, or the settings do not fit.
            MissingPackageError: The packages of the extra `serve` are not installed.
        """
        require_packages("serving a library")
        from visir.library.service.app import create_app

        chosen = settings_of_host(host, tuple(Path(folder) for folder in libraries), **settings)
        waiting = listening(host, port)
        try:
            log = ServiceLog(queries=chosen.log_queries, form="text", least="warning")
            return cls(create_app(chosen, log=log, loaded=loaded), chosen, waiting, log)
        except BaseException:
            waiting.close()
            raise


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
    require("fastapi", "prometheus_client", extra="serve", purpose="the description of the service")
    from visir.library.service.app import describe, described_app

    return describe(described_app(), with_tokens=True)


def open_page(url: str, *, only_with_screen: bool) -> bool:
    """Open the page in a browser; whether that was tried. `only_with_screen`: not where no browser could show it."""
    import os
    import sys
    import webbrowser

    if only_with_screen and sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):  # fmt: skip
        return False
    return webbrowser.open(url)
