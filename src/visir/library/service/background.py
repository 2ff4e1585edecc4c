"""A service that runs beside other work: from a notebook, a script, a test."""

from __future__ import annotations

import html
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import ConfigurationError, require
from visir.library.background_thread import BackgroundThread
from visir.library.service.logs import ServiceLog
from visir.library.service.settings import ServiceSettings, settings_of_host

if TYPE_CHECKING:
    import socket

    from visir.encoders.base import Encoder


class RunningService(BackgroundThread):
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

    def __init__(
        self, settings: ServiceSettings, waiting: socket.socket, log: ServiceLog, loaded: dict[str, Encoder] | None
    ) -> None:
        from visir.library.service.app import create_app
        from visir.library.service.running import address_of, server_of

        self.url = address_of(waiting)
        self._log, self._waiting = log, waiting
        answers = threading.Event()
        app = create_app(settings, log=log, loaded=loaded)
        self._server = server_of(app, settings, answers.set)
        self._thread = threading.Thread(target=self._run, name="visir-serve", daemon=True)
        self._fault: BaseException | None = None
        self._thread.start()
        while not answers.wait(0.05):
            if not self._thread.is_alive():
                raise ConfigurationError(f"{self.url}: the service did not start: {self._fault}") from self._fault

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
        require("fastapi", "uvicorn", "httptools", "prometheus_client", extra="serve", purpose="serving a library")
        from visir.library.service.running import listening

        chosen = settings_of_host(host, tuple(Path(folder) for folder in libraries), **settings)
        waiting = listening(host, port)
        try:
            log = ServiceLog(queries=chosen.log_queries, form="text", least="warning")
            return cls(chosen, waiting, log, loaded)
        except BaseException:
            waiting.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether it answers requests."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no more requests; return when those that run are answered."""
        self._server.should_exit = True
        self._thread.join()

    def __repr__(self) -> str:
        return f"RunningService({self.url}, {'.stop() ends it' if self.is_alive else 'stopped'})"

    def _repr_html_(self) -> str:
        if not self.is_alive:
            return f"<p>{html.escape(self.url)} (stopped)</p>"
        address = html.escape(self.url)
        return f'<p>Serving at <a href="{address}" target="_blank">{address}</a>; <code>.stop()</code> ends it</p>'

    def _run(self) -> None:
        try:
            self._server.run([self._waiting])
        except BaseException as fault:  # it is said by whoever waits for the start
            self._fault = fault
            self._log.write("error", "fault", task="serve", fault=repr(fault))
        finally:
            self._waiting.close()
            self._log.close()


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
