"""What runs first: Ctrl-C is heard from here on, while the verbs are still imported."""

from __future__ import annotations


def run() -> None:
    """Run the command line."""
    try:
        from visir.cli.main import run as run_verbs

        run_verbs()
    except KeyboardInterrupt:
        from visir.cli.main import stop

        stop()
