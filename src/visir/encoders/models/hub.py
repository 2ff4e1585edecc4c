"""Files of repositories on the hub, or of its cache on this machine; what goes wrong there in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from visir.encoders.loading import hub_unreachable, meant_folder, no_folder
from visir.errors import EncoderError, nearest
from visir.options import with_option


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


# The values of options in names: `openai/clip-vit-base-patch32?template=a photo of {}&max_length=64`.


def positive_number(name: str, options: dict[str, str], key: str) -> int | None:
    """The option `key` as a positive whole number; None when it is not given."""
    if key not in options:
        return None
    if not options[key].isdecimal() or int(options[key]) < 1:
        raise EncoderError(f"{name}: {key}={options[key]!r} is not a positive whole number.", hint=f"e.g. {key}=64")
    return int(options[key])


def one_of(name: str, options: dict[str, str], key: str, choices: Sequence[str]) -> str:
    """The option `key`, which must be one of `choices`; the first of them when it is not given."""
    value = options.get(key, choices[0])
    if value not in choices:
        raise EncoderError(
            f"{name}: {key}={value!r} is not known.", hint=nearest(value, choices), code="encoder-not-known"
        )
    return value


CODE_OPTIONS = ("code", "code_revision")


@dataclass(frozen=True)
class TrustedCode:
    """The user's word that the code that comes with a model may run."""

    # The revisions of other repositories that hold code, by repository; "" stands for the only one.
    revisions: Mapping[str, str]


def trusted_code(name: str, options: Mapping[str, str]) -> TrustedCode | None:
    """What a name says of code: `?code=trusted`, and `&code_revision=COMMIT` or `…=OWNER/NAME@COMMIT,…`."""
    if options.get("code", "trusted") != "trusted":
        raise EncoderError(
            f"{name}: code={options['code']!r} is not known.",
            hint="code=trusted runs the Python code that comes with the model; read it before",
            code="code-not-known",
        )
    given = options.get("code_revision")
    if "code" not in options:
        if given is not None:
            raise EncoderError(
                f"{name}: code_revision names code, and nobody has said that code may run.",
                hint="read that code; if you trust it, add &code=trusted",
                code="code-revision-names-code",
            )
        return None
    entries = [entry.rpartition("@") for entry in given.split(",")] if given else []
    revisions = {repository: commit for repository, _, commit in entries}
    if not all(commit and (repository.count("/") == 1 or not at) for repository, at, commit in entries) or (
        len(revisions) != len(entries) or ("" in revisions and len(revisions) > 1)
    ):
        raise EncoderError(
            f"{name}: code_revision={given!r} cannot be read.",
            hint="code_revision=COMMIT; of several repositories: code_revision=OWNER/NAME@COMMIT,OWNER/NAME@COMMIT",
            code="code-revision-cannot-read",
        )
    return TrustedCode(revisions)


def refuse_code(name: str, others: Sequence[str] = ()) -> EncoderError:
    """The error for a model that is nothing without code that comes with it, or lies in the repositories `others`."""
    where = f" (and in {' and '.join(others)}, which it names)" if others else ""
    revision = "revision and a code_revision then name" if others else "revision then names"
    return EncoderError(
        f"{name}: this model needs Python code that comes with it, and nobody has said that it may run.",
        hint=f"read the *.py files in its repository{where}; if you trust them: {with_option(name, 'code', 'trusted')} "
        f"(a {revision} the code that you have read)",
        code="model-needs-python-code",
    )


def template_of(name: str, options: dict[str, str]) -> str:
    """The option `template`, in which one `{}` stands for the text; "{}" when it is not given."""
    template = options.get("template", "{}")
    if template.count("{}") != 1:
        raise EncoderError(
            f"{name}: the template {template!r} must hold {{}} exactly once: the place of the text.",
            hint="e.g. template=a photo of {}",
        )
    return template
