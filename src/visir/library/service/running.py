"""Serving libraries: until a signal stops it, or beside other work (a notebook, a script, a test)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """Serve until a signal stops it; `ready` is called with the address once requests are answered.

    On SIGTERM or SIGINT no connection is taken any more, requests that run get `settings.grace` seconds to finish, and
    this returns.

    Args:
        settings: What is served, and how.
        host: The address to listen on.
        port: 0 takes one that is free.
        ready: Called with the address, "http://127.0.0.1:8765/".
        log: Where requests and events go. Default: JSON lines on standard error.
        callback: Called with what takes long before that: "loading the model … of photos".

    Raises:
        ConfigurationError: The address cannot be had; said before any model is loaded.
    """
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
