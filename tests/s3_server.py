"""A server that speaks S3, in a thread of this process, empty when it begins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest


@contextmanager
def s3_server(environment: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start it, name it in the environment of this process and of those that it starts, and yield fsspec's files."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        pytest.skip("needs an S3 server to talk to: pip install s3fs 'moto[server]'")
    import fsspec
    from moto.backends import get_backend
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        settings = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                    "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip
        for name, value in settings.items():
            environment.setenv(name, value)
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            environment.delenv(name)
        get_backend("s3").reset()
        files = fsspec.filesystem("s3")
        files.clear_instance_cache()
        yield fsspec.filesystem("s3")
    finally:
        server.stop()
