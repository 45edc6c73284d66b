"""The image: linted, its steps run here in a scratch folder, and what they made is started."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from service import __version__
from tests.deploy.image import DockerIgnore, Image, MissingFileError
from tests.deploy.wheels import fetch_wheelhouse
from tests.support.ports import find_free_port

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOCKS = ROOT / "deploy" / "requirements"
PACKAGED_FOLDERS = {"default": "default_model", "light": "light_model", "encoder": "default_encoder"}


def fingerprints(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(ROOT, tmp_path_factory.mktemp("image"), fetch_wheelhouse("serving", "build"))
    made.build()
    return made


def run(image: Image, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*image.resolve_command("ENTRYPOINT"), *arguments],
        cwd=image.resolve_path("/data"),
        env=image.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_linter_has_nothing_to_say() -> None:
    done = subprocess.run([BIN / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_runs_as_a_numbered_user_that_is_not_root(image: Image) -> None:
    uid, gid = image.last["USER"].split(":")
    assert int(uid) >= 10_000
    assert int(gid) >= 10_000
    assert f"--chown={uid}:{gid} /data /data" in (ROOT / "Dockerfile").read_text()
    assert image.last["WORKDIR"] == "/data" == image.last["VOLUME"]


def test_no_image_comes_from_a_named_registry() -> None:
    for name in re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        assert "/" not in name
        assert ":" in name


def test_only_what_is_needed_goes_into_the_build(image: Image) -> None:
    assert {path.split("/")[0] for path in image.copied} == {
        *("deploy", "models", "service"),
        *("LICENSE", "README.md", "pyproject.toml"),
    }
    assert not [path for path in image.copied if "__pycache__" in path]
    models = {path.split("/")[1] for path in image.copied if path.startswith("models/")}
    assert models == set(PACKAGED_FOLDERS)


def test_the_installed_command_works_from_elsewhere(image: Image) -> None:
    before = fingerprints(image.root / "opt")
    assert run(image, "--version").stdout == f"labelwatch {__version__}\n"
    done = run(image, "check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    model = next((image.root / "opt").rglob("default_model"))
    done = run(image, "model", "check", str(model))
    assert done.returncode == 0, done.stdout + done.stderr
    assert fingerprints(image.root / "opt") == before, "it must run from a file system that can't be written to"


@pytest.mark.parametrize("command", ["as it is", "worker"])
def test_a_container_gets_healthy_and_stops_on_request(image: Image, command: str) -> None:
    """The service and a worker alone, started and checked by the image's own commands."""
    port = find_free_port()
    environment = {
        **image.environment,
        **dict.fromkeys(("LABELWATCH_API_PORT", "LABELWATCH_WORKER_METRICS_PORT"), str(port)),
        **dict.fromkeys(("LABELWATCH_API_HOST", "LABELWATCH_WORKER_METRICS_HOST"), "127.0.0.1"),
    }
    before = fingerprints(image.root / "opt")
    words = json.loads(image.last["CMD"]) if command == "as it is" else [command]
    process = subprocess.Popen(
        [*image.resolve_command("ENTRYPOINT"), *words],
        cwd=image.resolve_path(image.last["WORKDIR"]),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while subprocess.run(
            image.resolve_command("HEALTHCHECK"), env=environment, capture_output=True, check=False
        ).returncode:
            assert process.poll() is None, process.communicate()[0]
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert fingerprints(image.root / "opt") == before


def test_the_installation_left_its_source_alone(image: Image) -> None:
    source = image.resolve_path("/src")
    assert sorted(fingerprints(source)) == sorted(image.copied)


def test_the_installed_package_is_whole(image: Image) -> None:
    site = next((image.root / "opt").rglob("site-packages"))
    installed = set(fingerprints(site / "service"))
    for path in image.copied:
        if path.startswith("service/"):
            assert path.removeprefix("service/") in installed
        elif path.startswith("models/"):
            folder, _, file = path.removeprefix("models/").partition("/")
            assert f"{PACKAGED_FOLDERS[folder]}/{file}" in installed
    assert not list(site.glob("pip*")), "what runs in production can't install anything"


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (None, False)])
def test_the_health_check_asks_the_service(image: Image, *, status: int | None, healthy: bool) -> None:
    with answering(status) as port:
        environment = {**image.environment, "LABELWATCH_API_PORT": str(port)}
        done = subprocess.run(image.resolve_command("HEALTHCHECK"), env=environment, capture_output=True, check=False)
    assert (done.returncode == 0) == healthy


class answering:  # noqa: N801 - it reads as a verb
    """A service that gives one status on /healthz, or none that listens."""

    def __init__(self, status: int | None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if status and self.path == "/healthz" else 404)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._listens = status is not None

    def __enter__(self) -> int:
        self._thread.start()
        if not self._listens:
            self._close()
        return self._server.server_port

    def __exit__(self, *_: object) -> None:
        if self._listens:
            self._close()

    def _close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_the_build_lock_is_part_of_the_development_lock() -> None:
    dev = (LOCKS / "dev.txt").read_text()
    entries = re.split(r"\n(?=\S)", (LOCKS / "build.txt").read_text().strip())
    assert "hatchling" in {entry.split("==")[0] for entry in entries}
    for entry in entries:
        assert entry in dev


# -- the stand-in itself -----------------------------------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    for name in ("kept/a", "kept/deep/b", "kept/deep/c.pyc", "secret"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".dockerignore").write_text("*\n!kept\n**/*.pyc\n")
    return tmp_path


def test_the_ignore_file_is_read_as_docker_does(context: Path) -> None:
    ignored = DockerIgnore.read(context / ".dockerignore")
    assert [ignored(name) for name in ("kept/a", "kept/deep/b", "kept/deep/c.pyc", "secret")] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("step", ["COPY absent /x", "COPY secret /x", "COPY --from=build /opt /opt"])
def test_a_missing_file_shows(context: Path, step: str) -> None:
    (context / "Dockerfile").write_text(f"FROM python:3.11 AS build\n{step}\n")
    with pytest.raises(MissingFileError):
        Image(context, context / "root").build()


def test_a_step_that_fails_shows(context: Path) -> None:
    (context / "Dockerfile").write_text("FROM python:3.11\nWORKDIR /w\nCOPY kept kept\nRUN test -e kept/deep/c.pyc\n")
    with pytest.raises(AssertionError, match="RUN test"):
        Image(context, context / "root").build()
