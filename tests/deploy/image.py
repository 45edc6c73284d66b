"""The Dockerfile's steps without a container engine: each stage is a folder, COPY and RUN happen in it as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


class MissingFileError(AssertionError):
    """A step names a file that would not be there."""


@dataclass(frozen=True)
class DockerIgnore:
    """What .dockerignore keeps out of the build: the last line that fits a path decides."""

    rules: tuple[tuple[bool, re.Pattern[str]], ...]

    @classmethod
    def read(cls, path: Path) -> DockerIgnore:
        lines = [line.strip() for line in path.read_text().splitlines()]
        wanted = [line for line in lines if line and not line.startswith("#")]
        return cls(tuple((not line.startswith("!"), _compile_pattern(line.removeprefix("!"))) for line in wanted))

    def __call__(self, path: str) -> bool:
        out = False
        for ignored, pattern in self.rules:
            if pattern.match(path):
                out = ignored
        return out


def _compile_pattern(line: str) -> re.Pattern[str]:
    """`*` stays within a folder, `**/` is any number of folders; a folder's name covers what is in it."""
    text = re.escape(line.strip("/")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(f"{text}(?:/.*)?$")


def parse_instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


@dataclass
class Image:
    """What came of the last stage. All stages share one root, since an environment can't be moved to another path."""

    context: Path
    root: Path
    wheels: Path | None = None  # what may be installed
    variables: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)  # by instruction: USER, ENTRYPOINT and so on
    copied: list[str] = field(default_factory=list)

    def build(self) -> None:
        ignored = DockerIgnore.read(self.context / ".dockerignore")
        folder = "/"
        for name, rest in parse_instructions((self.context / "Dockerfile").read_text()):
            if name == "FROM":
                folder, self.variables = "/", {}
            elif name == "WORKDIR":
                folder = rest
                self.resolve_path(folder).mkdir(parents=True, exist_ok=True)
            elif name == "COPY":
                self._copy(rest, folder, ignored)
            elif name == "RUN":
                self._run(rest, folder)
            elif name == "ENV":
                self.variables.update(dict(part.split("=", 1) for part in shlex.split(rest)))
            self.last[name] = rest

    def resolve_path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @property
    def environment(self) -> dict[str, str]:
        """As a container has it, with the paths that lie in our root."""
        path = os.environ["PATH"]
        given = {name: value.replace("$PATH", path) for name, value in self.variables.items()}
        ours = {name: str(self.resolve_path(value)) for name, value in given.items() if value.startswith("/data")}
        # The steps compiled nothing here, so that is done at the first start, and kept where a container could not write.
        del given["PYTHONDONTWRITEBYTECODE"]
        compiled = {"PYTHONPYCACHEPREFIX": str(self.root / "compiled")}
        return {**given, **ours, **compiled, "PATH": f"{self.root}{given['PATH']}", "HOME": str(self.root)}

    def resolve_command(self, name: str) -> list[str]:
        """A command in its exec form, the program found as a container would find it."""
        words: list[str] = json.loads(self.last[name][self.last[name].index("[") :])
        program = shutil.which(words[0], path=self.environment["PATH"])
        if program is None:
            raise MissingFileError(f"{name}: {words[0]} is not in the image")
        return [program, *words[1:]]

    def _copy(self, rest: str, folder: str, ignored: DockerIgnore) -> None:
        words = rest.split()
        options = [word for word in words if word.startswith("--")]
        *sources, target = words[len(options) :]
        if any(option.startswith("--from=") for option in options):
            assert sources == [target], f"COPY {rest}: the environment only works at the path it was made for"
            if not self.resolve_path(target).exists():
                raise MissingFileError(f"COPY {rest}: the stage before made no such thing")
            return
        to = self.resolve_path(str(Path(folder, target)))
        for source in sources:
            self._copy_files(source, to / Path(source).name if target.endswith("/") else to, ignored)

    def _copy_files(self, source: str, to: Path, ignored: DockerIgnore) -> None:
        found = self.context / source
        files = [found] if found.is_file() else sorted(path for path in found.rglob("*") if path.is_file())
        sent = [path for path in files if not ignored(str(path.relative_to(self.context)))]
        if not sent:
            raise MissingFileError(f"COPY {source}: there is no such file, or .dockerignore keeps it out")
        for path in sent:
            place = to / path.relative_to(found) if found.is_dir() else to
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
            self.copied.append(str(path.relative_to(self.context)))

    def _run(self, rest: str, folder: str) -> None:
        """Absolute paths lie in our root; packages come from our own store, and bytecode is left to who starts them."""
        command = re.sub(r"(?<=\s)/(?=\w)", f"{self.root}/", rest)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PYTHON": sys.executable,
            "PIP_NO_COMPILE": "1",
            "PIP_NO_INDEX": "1",
            **({} if self.wheels is None else {"PIP_FIND_LINKS": str(self.wheels)}),
        }
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.resolve_path(folder),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"
