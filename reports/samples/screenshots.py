"""Pictures of the sample reports at both widths, for README and docs: ``python reports/samples/screenshots.py``.

Needs the extra [dev] and a Chromium on the machine. Colours are reduced to 256, which text and flat areas survive: a picture
takes under 300 kB.
"""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent.parent / "docs" / "figures"
HEIGHTS = {1280: 1700, 420: 2000}
"""Pixels: the answer, the bars and the matrix."""


def main() -> None:
    program = os.environ.get("REPLAYCHECK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("no chromium on this machine: apt install chromium, or set REPLAYCHECK_CHROMIUM")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name in ("pass", "fail"):
            for width in HEIGHTS:
                save(shoot(browser, HERE / f"report-{name}.html", width), FIGURES / f"report-{name}-{width}.png")
        browser.close()


def shoot(browser: Any, report: Path, width: int) -> bytes:
    page = browser.new_page(viewport={"width": width, "height": HEIGHTS[width]}, color_scheme="light")
    page.goto(report.as_uri())
    picture: bytes = page.screenshot()
    page.close()
    return picture


def save(picture: bytes, path: Path) -> None:
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
