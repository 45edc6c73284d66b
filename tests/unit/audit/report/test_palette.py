"""Colours of types: the same in the report and in the console, with contrast, and apart for every kind of colour vision."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.audit.report.palette import N_COLOURS, N_LINE_STYLES, Palette

SERVICE = Path(__file__).resolve().parents[4] / "service"
CONSOLE_CSS = SERVICE / "api" / "console" / "base.css"
REPORT_CSS = SERVICE / "audit" / "report" / "page.css"
SCRIPT = """
import { readFileSync } from "node:fs";
const { Palette } = await import(process.argv[1]);
const { sets, unknown } = JSON.parse(readFileSync(0, "utf8"));
const list = (types) => [types, unknown].map((names) => names.map((name) => new Palette(types).getClasses(name)));
console.log(JSON.stringify(sets.map(list)));
"""
MIN_CONTRAST = 4.5
# Distances in OKLab, times 100: 2 is just noticeable side by side.
MIN_DISTANCE = 9.0
# Machado, Oliveira and Fernandes 2009, full severity, for linear RGB.
COLOUR_VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def read_colours(css: Path, names: list[str]) -> list[list[np.ndarray[Any, np.dtype[np.float64]]]]:
    """The colours of the light and of the dark page, as linear RGB."""
    looks: list[list[np.ndarray[Any, np.dtype[np.float64]]]] = [[], []]
    for name in names:
        values = re.findall(rf"--{name}: #(\w{{6}});", css.read_text(encoding="utf-8"))
        assert len(values) == 2, name
        for look, value in zip(looks, values, strict=True):
            part = np.array([int(value[start : start + 2], 16) for start in (0, 2, 4)]) / 255
            look.append(np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4))
    return looks


def to_oklab(colour: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(100 * TO_OKLAB @ np.cbrt(TO_LMS @ np.clip(colour, 0, 1)))


TYPE_NAMES = [f"t{number}" for number in range(N_COLOURS)]


@pytest.mark.parametrize("css", [CONSOLE_CSS, REPORT_CSS], ids=["console", "report"])
@pytest.mark.parametrize("vision", COLOUR_VISION)
def test_colours_are_apart_for_every_kind_of_colour_vision(css: Path, vision: str) -> None:
    for look in read_colours(css, TYPE_NAMES):
        seen = [to_oklab(np.array(COLOUR_VISION[vision]) @ colour) for colour in look]
        assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) >= MIN_DISTANCE


@pytest.mark.parametrize(
    ("css", "backgrounds"),
    [(CONSOLE_CSS, ["paper", "raised", "soft", "selected"]), (REPORT_CSS, ["paper", "raised", "soft"])],
    ids=["console", "report"],
)
def test_colours_have_contrast(css: Path, backgrounds: list[str]) -> None:
    luminance = np.array([0.2126, 0.7152, 0.0722])
    for texts, behind in zip(read_colours(css, TYPE_NAMES), read_colours(css, backgrounds), strict=True):
        for text in texts:
            for background in behind:
                low, high = sorted([float(luminance @ text), float(luminance @ background)])
                assert (high + 0.05) / (low + 0.05) >= MIN_CONTRAST


def test_console_and_report_choose_the_same_looks() -> None:
    rng = np.random.default_rng(3)
    letters = list("ABCDEFGHxyz_-é😀")
    names = [
        "LOC",
        "PER",
        "ORG",
        "MISC",
        "org",
        *("".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(200)),
    ]
    sets = [[str(name) for name in rng.choice(names, rng.integers(1, 45))] for _ in range(60)]
    unknown = ["DRUG", "LOC"]
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT, (SERVICE / "api/console/labels/colours.js").as_uri()],
        input=json.dumps({"sets": sets, "unknown": unknown}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for types, looks in zip(sets, json.loads(ran.stdout), strict=True):
        palette = Palette(types)
        assert looks == [[palette.get_css_classes(name) for name in each] for each in (types, unknown)]


def test_types_of_one_label_set_have_different_looks() -> None:
    names = [f"TYPE_{number}" for number in range(N_COLOURS * N_LINE_STYLES)]
    palette = Palette(names)
    assert len({palette.get_css_classes(name) for name in names}) == len(names)
    solid = Palette(["LOC", "PER", "ORG", "MISC", *names[:4]])
    assert [solid.get_css_classes(name) for name in ("LOC", "PER", "ORG", "MISC")] == ["t0", "t1", "t2", "t3"]
    assert all(" " not in solid.get_css_classes(name) for name in names[:4])
