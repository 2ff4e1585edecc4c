"""Files of repositories on the hub, or of its cache on this machine; what goes wrong there in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visir.encoders.loading import hub_unreachable, meant_folder, no_folder
from visir.errors import EncoderError


def snapshot(name: str, revision: str | None, patterns: Sequence[str]) -> Path:
    """The folder of a repository at a revision (None: the newest), with the files that match `patterns`."""
    # What is in the cache is used without a download when the hub cannot be reached; the folder is called as its
    # commit.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except HFValidationError as fault:
        raise EncoderError(f"{name}: neither a folder nor a name on the hub.", hint="ORGANISATION/NAME") from fault
    except GatedRepoError as fault:
        raise EncoderError(
            f"{name}: the hub asks for the licence to be accepted first.",
            hint=f"accept it at https://huggingface.co/{name}, then: hf auth login",
        ) from fault
    except RepositoryNotFoundError as fault:
        raise EncoderError(
            f"{name}: {no_folder(name)}there is no such model on the hub, or it is private.",
            hint=f"{meant_folder(name)}check the name; for a private one: hf auth login",
        ) from fault
    except RevisionNotFoundError as fault:
        raise EncoderError(
            f"{name}: the hub has no revision {revision!r} of it.",
            hint=f"see https://huggingface.co/{name}/commits/main",
        ) from fault
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as fault:
        raise hub_unreachable(name, fault) from fault
