"""What tests of the page share: IR of the kernel on it, and what its timeline shows."""

from dataclasses import replace

from made import FILE

TILE = f"""builtin.module {{
  tile.nest (%1) in [64] does "load" from "{FILE}:33" {{
    %2 = "tt.load"(%1) : (i64) -> f32
  }}
  tile.dot %3, %4 does "dot" from "{FILE}:35"
  tile.nest (%5) in [64] does "reduce+exp+mul" from "{FILE}:36,37,38,39" {{
    %6 = "math.exp"(%5) : (f32) -> f32
  }}
}}"""


def shown(page):
    """What the timeline shows, in ns from the first interval."""
    page.wait_for_function("document.documentElement.dataset.frame")
    return tuple(float(page.evaluate(f"document.documentElement.dataset.{end}")) for end in ("from", "to"))


def after(page, act):
    """What it shows once all has been drawn that an action asks for."""
    act()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return shown(page)


def lit(page, pane):
    return page.locator(f"#{pane} .lit")


def with_ir(trace):
    return replace(trace, kernels=[replace(trace.kernels[0], ir={"ttir": "module {}", "tile": TILE})])
