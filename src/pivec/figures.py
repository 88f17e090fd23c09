"""Drawing to PNG files with matplotlib, without pyplot and without touching its settings.

And the colours: of text and lines, and a palette for groups that colour-blind readers can tell
apart.
"""

from __future__ import annotations

import io
import os
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.files import atomic_write
from pivec.terminal import printable, shortened
from pivec.text import shorten_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1F2328"
MUTED = "#59636E"
HAIRLINE = "#D1D9E0"
# Policies without a run, and policies that are there for context only.
LONE_COLOUR = "#6E7781"
REFERENCE_COLOUR = "#B9BFC6"
# After Okabe & Ito 2008 and Tol 2021, ordered so that the first few differ most.
GROUP_PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9",
    "#7262C3", "#999933", "#882255", "#44AA99", "#B3955B", "#AA4499",
)  # fmt: skip

MAX_PNG_BYTES = 300_000
# Tried from the sharpest on, until the file is small enough.
RESOLUTIONS = (200, 175, 150, 125, 100, 75, 50, 25)


def group_colours(n: int) -> list[str]:
    """Return one colour per group; after twelve the palette comes again darker, then lighter.

    Examples
    --------
    >>> group_colours(2)
    ['#0072B2', '#E69F00']
    >>> len(set(group_colours(36)))
    36
    """
    shades = ((0.0, 0.0), (0.0, 0.42), (255.0, 0.45))
    colours = []
    for i in range(n):
        colour = GROUP_PALETTE[i % len(GROUP_PALETTE)]
        towards, share = shades[(i // len(GROUP_PALETTE)) % len(shades)]
        parts = ((1 - share) * part + share * towards for part in bytes.fromhex(colour[1:]))
        colours.append("#" + "".join(f"{round(part):02X}" for part in parts))
    return colours


def colour_scale(name: str, n: int = 16) -> list[str]:
    """Take even steps through one of matplotlib's colour maps."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps[name](np.linspace(0.0, 1.0, n))]


def new_figure(width: float, height: float) -> Figure:
    """Make an empty white figure of so many inches, which notebooks show without pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    figure._repr_png_ = lambda: to_png(figure, 100)  # type: ignore[attr-defined]
    return figure


def axes_at(
    figure: Figure, left: float, bottom: float, width: float, height: float, **looks: Any
) -> Axes:
    """Add axes at a place given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up), **looks)


def literal(text: str, length: int = 60) -> str:
    r"""Make a text that matplotlib shows as it is: ``$`` does not start mathematics.

    Examples
    --------
    >>> print(literal("$x$"))
    \$x\$
    """
    return shortened(printable(text), length).replace("$", r"\$")


def wrapped(text: str, width: int, most: int = 3) -> str:
    """Break a text into lines for matplotlib, after commas if that gives few lines.

    Examples
    --------
    >>> print(wrapped("height below 0.5 m, angle 0 to 1 rad", 20))
    height below 0.5 m,
    angle 0 to 1 rad
    """
    parts = text.replace(", ", ",\n").splitlines()
    if len(parts) > most or max(map(len, parts), default=0) > width:
        parts = textwrap.wrap(text, width, max_lines=most, placeholder=" …")
    return "\n".join(literal(part, width) for part in parts)


def literals(names: Sequence[str], length: int) -> list[str]:
    """Make names that matplotlib shows as they are, cut where they do not differ."""
    return [
        name.replace("$", r"\$") for name in shorten_names([printable(n) for n in names], length)
    ]


def add_heading(figure: Figure, title: str, subtitle: str = "") -> None:
    """Put a title and a line of smaller text at the upper left."""
    width, height = figure.get_size_inches()
    for text, top, letters, size, weight, colour in (
        (title, 0.20, 9, 14, "bold", INK),
        (subtitle, 0.50, 14, 10, "normal", MUTED),
    ):
        figure.text(
            0.28 / width,
            1 - top / height,
            literal(text, int(width * letters)),
            va="top",
            fontsize=size,
            fontweight=weight,
            color=colour,
        )


def quiet_axes(axes: Axes, *, frame: bool = True) -> None:
    """Take ticks away and draw the frame as a hairline."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(frame)
        spine.set_color(HAIRLINE)
        spine.set_linewidth(0.8)


def lined_axes(axes: Axes, labelsize: float = 9.5, across: bool = False) -> None:
    """Draw thin axes with horizontal grid lines; ``across`` with vertical ones and no y axis."""
    axes.tick_params(length=2.5, width=0.6, labelsize=labelsize, color=MUTED, labelcolor=INK)
    axes.grid(axis="x" if across else "y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom" or (name == "left" and not across))
        spine.set_color(HAIRLINE)


def add_panel_title(axes: Axes, title: str, subtitle: str = "", colour: str = MUTED) -> None:
    """Put a title and a line of smaller text above a panel; a colour makes that line bold."""
    for text, offset, size, weight, ink in (
        (title, 21 if subtitle else 8, 11.5, "bold", INK),
        (subtitle, 7, 9.5, "normal" if colour == MUTED else "bold", colour),
    ):
        axes.annotate(
            text,
            (0, 1),
            (0, offset),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=size,
            fontweight=weight,
            color=ink,
        )


def add_key(figure: Figure, handles: Sequence[Any]) -> None:
    """Put a legend in one line under the heading."""
    width, height = figure.get_size_inches()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.24 / width, 1 - 0.74 / height),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
        handletextpad=0.4,
        columnspacing=1.6,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
    )


def save_png(figure: Figure, path: str | os.PathLike[str], sharpest: int = RESOLUTIONS[0]) -> None:
    """Write a figure as `to_png` makes it; the file appears whole or not at all."""
    data = to_png(figure, sharpest)
    with atomic_write(path) as file:
        file.write(data)


def to_png(figure: Figure, sharpest: int = RESOLUTIONS[0]) -> bytes:
    """Render a figure as PNG of at most 300 kB, as sharp as that and ``sharpest`` dpi allow.

    Where all its shades take too much room, it gets a palette of 256 before it gets coarser. The
    same figure gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A label may hold characters that the font has no picture for; it shows a box for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for dpi in (dpi for dpi in RESOLUTIONS if dpi <= sharpest):
            figure.set_dpi(dpi)
            canvas: Any = FigureCanvasAgg(figure)
            canvas.draw()
            # White is painted under everything, so the alpha channel says nothing.
            image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
            for palette in (False, True):
                if palette:
                    # Coverage changes colours half as much, but takes minutes for a photograph.
                    few = image.getcolors(1 << 17) is not None
                    method = Image.Quantize.MAXCOVERAGE if few else Image.Quantize.MEDIANCUT
                    image = image.quantize(256, method, dither=Image.Dither.NONE)
                buffer = io.BytesIO()
                image.save(buffer, format="png", dpi=(dpi, dpi))
                if buffer.tell() <= MAX_PNG_BYTES:
                    return buffer.getvalue()
    return buffer.getvalue()
