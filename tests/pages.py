"""What tests ask of HTML pages in a browser."""

import json
import re

import numpy as np
from matplotlib.image import imread

#: Measures every figure of a page once it is loaded, and tells it in an attribute.
PROBE = (
    "<script>addEventListener('load',function(){"
    "var d=document.documentElement,boxes=[];"
    "document.querySelectorAll('figure svg').forEach(function(f){var r=f.getBoundingClientRect();"
    "boxes.push([r.left,r.top,r.width,r.height].map(Math.round))});"
    "d.setAttribute('data-figures',JSON.stringify(boxes));"
    "d.setAttribute('data-high',Math.ceil(d.scrollHeight));"
    "d.setAttribute('data-wide',d.scrollWidth-d.clientWidth)})</script>"
)


def requests_of_the_page(log):
    """What the page asked the network for; what the browser asks for itself has no origin."""
    text = log.read_text().rstrip()
    events = json.loads(text if text.endswith("}") else text.rstrip(",") + "]}")["events"]
    asked = [e["params"] for e in events if "url" in e.get("params", {}) and "initiator" in e["params"]]
    return [p["url"] for p in asked if p["url"].startswith("http") and p["initiator"] != "not an origin"]


def figures_of(page, browser, folder, width=1200):
    """Console messages of a page, how far it is too wide, and the share of ink in every figure of a screenshot."""
    probed = folder / "probed.html"
    probed.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    shown = browser(f"--window-size={width},1000", "--dump-dom", url=probed.as_uri())
    console = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    boxes = json.loads(re.search(r'data-figures="([^"]*)"', shown.stdout)[1])
    high, wide = (int(re.search(rf'data-{name}="(-?\d+)"', shown.stdout)[1]) for name in ("high", "wide"))
    picture = folder / "page.png"
    browser(f"--window-size={width},{high}", f"--screenshot={picture}", url=page.as_uri())
    dark = imread(picture)[..., :3].min(axis=2) < 0.6
    ink = [float(dark[top : top + h, left : left + w].mean()) if w * h else 0.0 for left, top, w, h in boxes]
    return console, wide, np.array(ink)
