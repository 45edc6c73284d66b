"""ONNX Runtime sends nothing to anybody."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.command_harness import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LOAD_MODEL = """
import sys
from pathlib import Path
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
Classifier(ModelFolder.load(Path(sys.argv[1])))
"""


def test_a_process_with_a_model_leaves_no_identity_of_the_machine(tmp_path: Path, tiny_model: Path) -> None:
    """With its telemetry, ONNX Runtime writes a session to the temporary folder, and an id of the device to HOME."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", LOAD_MODEL, str(tiny_model)], cwd=ROOT, env=variables, check=True)
    assert list(tmp_path.rglob("*")) == []
