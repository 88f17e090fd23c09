"""How a page feels: frames while a mouse hovers, zooms and pans, time to open, memory.

A frame is the time between two callbacks of requestAnimationFrame while real mouse events come 60
times a second: what the eye sees, whoever is slow, script, painting or putting on the screen. With
60 frames a second none is below 16.7 ms, so beside it stands the work of a frame: the time of the
page's script in it, for the mouse events and for painting.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EVENTS, RATE = 240, 60.0
PATIENCE = 300_000  # ms
# Runs before the page's own script: `tick` comes first in a frame, `end` after what events want.
RECORDER = """(() => {
  let frames = null, works = null, begin = 0, spent = 0, events = 0, first = 0, ready = 0;
  const end = () => {
    if (works) works.push(performance.now() - first + spent);
    spent = events = 0;
  };
  for (const kind of ["pointermove", "wheel"]) {
    addEventListener(kind, () => { begin = performance.now(); }, { capture: true });
    addEventListener(kind, () => {
      spent += performance.now() - begin;
      if (!events++) requestAnimationFrame(end);
    });
  }
  const painted = () => performance.getEntriesByName("pivec-painted").length > 0
    || (document.readyState === "complete" && document.getElementById("map-canvas"));
  const tick = (now) => {
    if (frames) frames.push(now);
    first = performance.now();
    if (ready < 3 && painted()) { ready++; if (ready === 3) window.pageOpened = performance.now(); }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  window.recordFrames = () => { frames = []; works = []; };
  window.recordedFrames = () => { const all = [frames, works]; frames = works = null; return all; };
})();"""


def measure_page(address: str) -> dict[str, float]:
    """Open a page, hover, zoom and pan over its map; milliseconds, seconds and megabytes."""
    return asyncio.run(_measure(address))


async def _measure(address: str) -> dict[str, float]:
    from playwright.async_api import async_playwright
    from sight import VISIBLE_WORDS

    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("PIVEC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    flags = ["--disable-gpu"] + ["--no-sandbox"] * (os.geteuid() == 0)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=flags)
        page = await browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE)
        await page.add_init_script(RECORDER)
        await page.goto(address, wait_until="commit", timeout=PATIENCE)
        while not (opened := await page.evaluate("window.pageOpened || 0")):
            await asyncio.sleep(0.02)  # a wait of the driver's would need eval
        result = {"opens": opened / 1000, "words": await page.evaluate(VISIBLE_WORDS)}
        result |= await _gestures(page)
        result["memory"] = await memory_of(browser)
        await browser.close()
    return result


async def _gestures(page: Any) -> dict[str, float]:
    """Drive the mouse over the map as a hand does, which does not wait for the page."""
    canvas = page.locator("#map-overlay, #map-canvas").first
    await canvas.scroll_into_view_if_needed()
    box = await canvas.bounding_box()
    session = await page.context.new_cdp_session(page)
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    reach = 0.4 * min(box["width"], box["height"])
    turns = np.linspace(0, 2 * np.pi, EVENTS)  # a way that goes everywhere
    way = [
        (middle[0] + reach * np.sin(3 * t + 0.3), middle[1] + reach * np.sin(2 * t)) for t in turns
    ]

    def send(kind: str, place: tuple[float, float], **more: Any) -> Any:
        event = {"type": kind, "x": float(place[0]), "y": float(place[1])} | more
        return session.send("Input.dispatchMouseEvent", event)

    def wheel(k: int) -> Any:
        back = 1 if k // 30 % 2 else -1  # closer and back again, about threefold
        return send("mouseWheel", middle, deltaX=0, deltaY=16 * back)

    held = {"button": "left", "buttons": 1}
    await canvas.focus()
    result = await _frames(page, "hover", lambda k: send("mouseMoved", way[k]))
    result |= await _frames(page, "zoom", wheel)
    await page.keyboard.press("0")  # shows all
    await send("mouseMoved", way[0])
    await send("mousePressed", way[0], clickCount=1, **held)
    result |= await _frames(page, "pan", lambda k: send("mouseMoved", way[k], **held))
    await send("mouseReleased", way[-1], clickCount=1, button="left")
    return result


async def _frames(page: Any, name: str, event: Callable[[int], Any]) -> dict[str, float]:
    """Send the events of a gesture, 60 a second whatever the page does, and look at its frames."""
    await page.evaluate("window.recordFrames()")
    start, sent = time.perf_counter(), []
    for k in range(EVENTS):
        sent.append(asyncio.ensure_future(event(k)))
        await asyncio.sleep(max(0.0, start + (k + 1) / RATE - time.perf_counter()))
    frames, works = await page.evaluate("window.recordedFrames()")
    await asyncio.gather(*sent)
    between = np.diff(frames)
    return {
        name: float(np.median(between)),
        f"{name} 95": float(np.percentile(between, 95)),
        f"{name} work": float(np.median(works)),
    }


async def memory_of(browser: Any) -> float:
    """Megabytes that the largest renderer holds; NaN where the system does not tell."""
    session = await browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    held = [float("nan")]
    for process in processes:
        status = Path(f"/proc/{process['id']}/status")
        if process["type"] == "renderer" and status.exists():
            held.append(int(re.findall(r"VmRSS:\s*(\d+) kB", status.read_text())[0]) / 1000)
    return float(np.nanmax(held)) if len(held) > 1 else held[0]
