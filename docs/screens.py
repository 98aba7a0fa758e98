"""Screenshots in the guides: ``python docs/screens.py``, where Chromium is; a report, sections of it, and a form."""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from pictures import abalone_frame

IMAGES = Path(__file__).parent / "images"
PORT = 8765
#: Sections of the report that have pictures of their own, and their sizes.
SHOWN = {("behind",): "1000,1010", ("change", "second_look"): "1000,1120"}


def shot(address: str, file: Path, size: str) -> None:
    """A page as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("Chromium is needed for screenshots")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
    subprocess.run([browser, *flags, f"--screenshot={file}", f"--window-size={size}", address], check=True)


def only(page: Path, *sections: str) -> Path:
    """A copy of a report that shows some of its sections."""
    hidden = "".join(f":not(#{key})" for key in sections)
    style = f"<style>section{hidden}, body > :not(main) {{display: none !important}}</style>"
    file = page.with_name(f"{'_'.join(sections)}.html")
    file.write_text(page.read_text(encoding="utf-8").replace("</head>", f"{style}</head>"), encoding="utf-8")
    return file


def main() -> None:
    """Fit a table of the package by command, then look at what comes of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame, rings = abalone_frame()
        frame.assign(Rings=rings).to_csv(folder / "abalone.csv", index=False)
        ulmus = [sys.executable, "-m", "ulmus"]
        fit = ["fit", "abalone.csv", "--target", "Rings", "-o", "rings.ulmus", "--report", "rings.html"]
        subprocess.run([*ulmus, *fit], cwd=folder, check=True)
        shot((folder / "rings.html").as_uri(), IMAGES / "report.png", "1000,1150")
        for sections, size in SHOWN.items():
            part = only(folder / "rings.html", *sections)
            shot(part.as_uri(), IMAGES / f"report_{sections[-1]}.png", size)
        server = subprocess.Popen([*ulmus, "serve", "rings.ulmus", "--port", str(PORT)], cwd=folder)
        address = f"http://127.0.0.1:{PORT}/"
        try:
            for _ in range(60):
                try:
                    urllib.request.urlopen(address)
                    break
                except OSError:
                    time.sleep(0.5)
            shot(address, IMAGES / "serving.png", "900,760")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
