"""Screenshots in the guides: ``python docs/screens.py``, where Chromium is; the report of a model, and its form."""

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


def shot(address: str, file: Path, size: str) -> None:
    """A page as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("Chromium is needed for screenshots")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
    subprocess.run([browser, *flags, f"--screenshot={file}", f"--window-size={size}", address], check=True)


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
