"""What visir-papers needs: the visir of its own version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    """Both distributions are built from one tag."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what needs the version."""
        version = metadata["version"]
        metadata["dependencies"] = [f"visir=={version}"]
        metadata["optional-dependencies"] = {"all": [f"visir[all]=={version}"]}
