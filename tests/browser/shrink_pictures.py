"""Stores screenshots small in docs/images: `python -m tests.browser.shrink_pictures FOLDER`.

The pictures have few colours, so a palette makes them a third of their size without a visible difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PREFIX = "docs-"
N_COLOURS = 128


def shrink_picture(source: Path, target: Path) -> None:
    with Image.open(source) as picture:
        picture.convert("RGB").quantize(N_COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


def main(folder: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    for source in sorted(folder.glob(f"{PREFIX}*.png")):
        target = IMAGES / source.name.removeprefix(PREFIX)
        shrink_picture(source, target)
        sys.stdout.write(f"{target.name}: {target.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
