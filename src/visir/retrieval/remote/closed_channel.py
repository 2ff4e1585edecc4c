"""A call on a gRPC channel that was closed meanwhile is an error, and no crash of the process.

grpcio (1.85) looks up the handle of a method in the memory of the channel, without asking whether it is closed: by
another thread, or by pymilvus, where it could not connect again.
"""

from __future__ import annotations

import threading
from typing import Any


def guard_channels(handler: Any) -> None:
    """Guard the channel of pymilvus's handler, and those that it makes later."""
    make = handler._create_grpc_channel

    def made(*given: Any, **named: Any) -> Any:
        return guarded(make(*given, **named))

    handler._create_grpc_channel = made
    guarded(handler._channel)


def guarded(channel: Any) -> Any:
    """The channel; once it is closed, it raises `ValueError` where a call begins."""
    find = getattr(channel, "_get_registered_call_handle", None)
    if find is None:  # another version of grpcio
        return channel
    lock, close, closed = threading.Lock(), channel.close, threading.Event()

    def find_in_open(method: str) -> Any:
        with lock:
            if closed.is_set():
                raise ValueError("Cannot invoke RPC on closed channel!")
            return find(method)

    def close_guarded() -> None:
        with lock:
            closed.set()
        close()

    channel._get_registered_call_handle, channel.close = find_in_open, close_guarded
    return channel
