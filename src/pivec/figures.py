"""Drawing with matplotlib, without pyplot and without changing its settings: one style for all.

Colours of text and lines, a palette for groups that colour-blind readers can tell apart, sizes of
text, headings, axes and labels; and PNG, SVG and PDF files, which are the same each time.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.files import atomic_write
from pivec.options import FORMATS
from pivec.terminal import printable
from pivec.text import shorten_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Box = tuple[Array, Array]  # its lower left and its upper right corner
Line = tuple[str, float, dict[str, Any]]  # of a heading: text, inches from the top, looks

# Sizes of text in points. A figure of COLUMN inches in a column of a paper (3.3), or one of PAGE
# inches across both (7), has its smallest text at 6 points.
TITLE, PANEL, TEXT, SMALL = 14.0, 11.0, 10.0, 9.0
COLUMN, PAGE, MARGIN = 5.0, 10.5, 0.28

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
RESOLUTIONS = (400, 300, 200, 175, 150, 125, 100, 75, 50, 25)


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


def readable(colour: str) -> str:
    """Darken a colour until text in it can be read on white (contrast of 4.5).

    Examples
    --------
    >>> readable("#0072B2"), readable("#E69F00")
    ('#0072B2', '#9C6C00')
    """
    parts = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255.0
    for shade in np.linspace(1.0, 0.0, 101):
        light = np.where(
            shade * parts <= 0.04045,
            shade * parts / 12.92,
            ((shade * parts + 0.055) / 1.055) ** 2.4,
        )
        if 1.05 / (light @ (0.2126, 0.7152, 0.0722) + 0.05) >= 4.5:
            break
    return "#" + "".join(f"{round(255 * shade * part):02X}" for part in parts)


def new_figure(width: float, height: float) -> Figure:
    """Make an empty white figure of so many inches, which notebooks show without pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    figure._repr_png_ = lambda: to_png(figure, 100)  # type: ignore[attr-defined]
    return figure


def headed_figure(
    width: float, height: float, title: str, subtitle: str = "", key: Sequence[Any] = ()
) -> Figure:
    """Make a figure with a heading, and a legend if there are handles, above so many inches."""
    lines, depth = _heading(width, title, subtitle)
    columns, rows = _legend_shape([str(handle.get_label()) for handle in key], width - 2 * MARGIN)
    figure = new_figure(width, height + depth + 0.2 * rows + 0.06)
    _place(figure, lines)
    if key:
        add_key(figure, key, depth, columns)
    return figure


def add_heading(figure: Figure, title: str, subtitle: str = "") -> None:
    """Put a title and a line of smaller text at the upper left of a figure of any layout."""
    _place(figure, _heading(float(figure.get_size_inches()[0]), title, subtitle, most=1)[0])


def add_key(
    figure: Figure, handles: Sequence[Any], depth: float = 0.74, columns: int | None = None
) -> None:
    """Put a legend under the heading, by default in one line."""
    width, height = figure.get_size_inches()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(MARGIN / width, 1 - depth / height),
        ncols=columns or len(handles),
        borderaxespad=0,
        borderpad=0,
        handletextpad=0.4,
        columnspacing=1.6,
        labelspacing=0.35,
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
    )


def _heading(width: float, title: str, subtitle: str, most: int = 3) -> tuple[list[Line], float]:
    """Break a heading into lines, and give its depth in inches."""
    lines: list[Line] = []
    down = 0.2
    for text, size, weight, colour, gap in (
        (title, TITLE, "bold", INK, 0.04),
        (subtitle, TEXT, "normal", MUTED, 0.07),
    ):
        if text:
            for line in wrapped(text, width - 2 * MARGIN, size, most, weight).splitlines():
                looks = {"fontsize": size, "fontweight": weight, "color": colour}
                lines.append((line, down, looks))
                down += 1.3 * size / 72
            down += gap
    return lines, down if lines else MARGIN


def _place(figure: Figure, lines: Sequence[Line]) -> None:
    width, height = figure.get_size_inches()
    for text, down, looks in lines:
        figure.text(MARGIN / width, 1 - down / height, text, va="top", **looks)


def _legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Return columns and rows of a legend that is at most so wide, filled column by column."""
    em, widths = SMALL / 72, [text_width(label) for label in labels]
    for columns in range(len(labels), 0, -1):
        rows = -(-len(labels) // columns)
        wide = sum(max(widths[i : i + rows]) + 4.0 * em for i in range(0, len(labels), rows))
        if wide <= width or columns == 1:
            return -(-len(labels) // rows), rows
    return 1, 0


def axes_at(
    figure: Figure, left: float, bottom: float, width: float, height: float, **looks: Any
) -> Axes:
    """Add axes at a place given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up), **looks)


def literal(text: str, length: int = 60) -> str:
    r"""Make a text that matplotlib shows as it is: ``$`` does not start mathematics.

    A long text ends after a word; a name keeps its beginning and its end.

    Examples
    --------
    >>> print(literal("$x$"), "|", literal("pole angle below 0.02 rad", 20))
    \$x\$ | pole angle below …
    """
    text = printable(text)
    if len(text) > length:
        head = text[: length - 1].rpartition(" ")[0].rstrip(",;:")
        text = f"{head} …" if 2 * len(head) > length else cut_names([text], length)[0]
    return text.replace("$", r"\$")


def literals(names: Sequence[str], length: int) -> list[str]:
    """Make names that matplotlib shows as they are, cut where they do not differ.

    Examples
    --------
    >>> literals(["walker/seed_1/rl_model_40000_steps", "walker/seed_2/rl_model_9000_steps"], 24)
    ['…_1/rl_…_40000_steps', '…_2/rl_model_9000_steps']
    """
    return [name.replace("$", r"\$") for name in cut_names(names, length)]


def cut_names(names: Sequence[str], length: int) -> list[str]:
    """Shorten names, and leave out words that are cut, unless names would become the same."""
    names = [printable(name) for name in names]
    short = dict(zip(names, shorten_names(names, length), strict=True))
    whole = {name: re.sub(r"[^\W_]*…[^\W_]*", "…", cut) for name, cut in short.items()}
    times = Counter(whole.values())
    clear = {name for name, cut in whole.items() if times[cut] == 1 and re.search(r"\w", cut)}
    return [(whole if name in clear else short)[name] for name in names]


def text_width(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """Measure a text in inches, as matplotlib draws it."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(weight=weight)))
    font.set_size(size, 720)  # where hinting hardly matters
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        font.set_text(text.replace(r"\$", "$"), 0.0)
    return float(font.get_width_height()[0]) / 64 / 720


# Spaces within "−0.1 to 1.9 m" and "below 0.2", where lines do not break.
_NUMBERS = re.compile(r"(?<=\d) (?=\S)|(?<=\bto) (?=\S)|(?:(?<=\bbelow)|(?<=\babove)) (?=\S)")


def wrapped(
    text: str, width: float, size: float = SMALL, most: int = 3, weight: str = "normal"
) -> str:
    """Break a text into lines of so many inches for matplotlib, after commas if they suffice.

    Numbers stay with their units. What does not fit in ``most`` lines is left out after a word.

    Examples
    --------
    >>> print(wrapped("height below 0.5 m, angle 0 to 1 rad", 1.5))
    height below 0.5 m,
    angle 0 to 1 rad
    """

    def fits(line: str) -> bool:
        return text_width(line, size, weight) <= width

    def fill(parts: Sequence[str]) -> list[str]:
        lines = [""]
        for part in parts:
            if lines[-1] and not fits((lines[-1] + part).rstrip()):
                lines.append("")
            lines[-1] += part
        return [line.strip() for line in lines]

    text = _NUMBERS.sub("\u00a0", printable(text))
    lines = fill(re.split(r"(?<=, )", text))
    if len(lines) > most or not all(map(fits, lines)):
        words = re.split(r"(?<= )", text)
        # Names break at their separators, and where they have none at any letter.
        parts = [p for w in words for p in ([w] if fits(w) else re.split(r"(?<=[/_\-\u00a0])", w))]
        letters = [p for part in parts for p in ([part] if fits(part.rstrip()) else list(part))]
        lines = fill(letters)
    if len(lines) > most:
        last = lines[most - 1]
        while last and not fits(f"{last} …"):
            last = last.rpartition(" ")[0] or last[:-1]
        lines = [*lines[: most - 1], f"{last} …"]
    return "\n".join(lines).replace("\u00a0", " ").replace("$", r"\$")


def quiet_axes(axes: Axes, *, frame: bool = True) -> None:
    """Take ticks away and draw the frame as a hairline."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(frame)
        spine.set_color(HAIRLINE)
        spine.set_linewidth(0.8)


def lined_axes(axes: Axes, labelsize: float = SMALL, across: bool = False) -> None:
    """Draw thin axes with horizontal grid lines; ``across`` with vertical ones and no y axis."""
    axes.tick_params(length=2.5, width=0.6, labelsize=labelsize, color=MUTED, labelcolor=INK)
    axes.grid(axis="x" if across else "y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom" or (name == "left" and not across))
        spine.set_color(HAIRLINE)


def name_axes(axes: Axes, x: str = "", y: str = "") -> None:
    """Say in grey what is along the axes."""
    axes.set_xlabel(x, fontsize=SMALL, color=MUTED)
    axes.set_ylabel(y, fontsize=SMALL, color=MUTED)


def add_panel_title(axes: Axes, title: str, subtitle: str = "", colour: str = MUTED) -> None:
    """Put a title and a line of smaller text above a panel; a colour makes that line bold."""
    for text, offset, size, weight, ink in (
        (title, 20 if subtitle else 7, PANEL, "bold", INK),
        (subtitle, 7, SMALL, "normal" if colour == MUTED else "bold", colour),
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


def label_points(
    axes: Axes,
    anchors: Array,
    texts: Sequence[str],
    colours: Sequence[str],
    places: Array,
    radius: float = 2.0,
    weight: str = "normal",
    *,
    far: bool = True,
) -> int:
    """Write texts beside their anchors so that they cover no point of ``places`` and no other text.

    A label that is not close to its anchor gets a thin line to it; without ``far`` it is left out.
    Return how many found room. The limits of the axes must be set.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    # All in points of 1/72 inch from the lower left corner.
    size = axes.get_figure().get_size_inches() * 72 * axes.get_position().size  # type: ignore[union-attr]

    def in_points(at: Array) -> Array:
        pixels = axes.transData.transform(np.asarray(at, np.float64).reshape(-1, 2))
        return np.asarray(axes.transAxes.inverted().transform(pixels) * size)

    dots, starts, taken = in_points(places), in_points(anchors), list[Box]()
    found = [
        _free_box(start, text, dots, radius, taken, size, weight, far)
        for start, text in zip(starts, texts, strict=True)
    ]
    for box, start, text, colour in zip(found, starts, texts, colours, strict=True):
        if box is None:
            continue
        nearest = np.clip(start, *box)
        if np.linalg.norm(nearest - start) > radius + 2 * _AWAY[0]:
            ends = np.array([start, nearest]) / size
            looks: dict[str, Any] = {"color": colour, "linewidth": 0.6}
            line = Line2D(*ends.T, transform=axes.transAxes, zorder=4.5, **looks)
            axes.add_artist(line)
        x, y = ((box[0] + box[1]) / 2 / size).tolist()
        axes.text(
            x,
            y,
            text,
            transform=axes.transAxes,
            ha="center",
            va="center",
            fontsize=SMALL,
            fontweight=weight,
            color=readable(colour),
            zorder=5,
            path_effects=[withStroke(linewidth=2.2, foreground="white", alpha=0.85)],
        )
    return sum(box is not None for box in found)


# Directions to try beside a point, the usual ones first, and how far away.
_AROUND = np.array(((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)))
_AWAY = (3.0, 8.0, 16.0, 26.0)


def _free_box(
    anchor: Array,
    text: str,
    dots: Array,
    radius: float,
    taken: list[Box],
    frame: Array,
    weight: str,
    far: bool,
) -> Box | None:
    """Find the nearest box for a text that is in the frame and covers nothing, and take it."""
    half = np.array([72 * text_width(text, weight=weight), 1.25 * SMALL]) / 2 + 0.5
    beside = [
        anchor + direction * ((away + radius) / np.linalg.norm(direction) + half)
        for away in _AWAY
        for direction in _AROUND
    ]
    spread = np.stack(
        np.meshgrid(*(np.arange(h, f, 9.0) for h, f in zip(half, frame, strict=True)))
    )
    others = spread.reshape(2, -1).T
    others = others[np.argsort(np.linalg.norm(others - anchor, axis=1), kind="stable")]
    for middle in (*beside, *(others if far else ())):
        low, high = middle - half, middle + half
        if (low < 1).any() or (high > frame - 1).any():
            continue
        # The line to the label is in nobody's way either.
        way = np.linspace(anchor, np.clip(anchor, low, high), 12)[1:]
        if any((low < b).all() and (a < high).all() for a, b in taken) or any(
            ((a < way) & (way < b)).all(axis=1).any() for a, b in taken
        ):
            continue
        if (np.maximum(low - dots, dots - high).max(axis=1) > radius).all():
            taken += [(low, high), *((point - 1.0, point + 1.0) for point in way[:-1])]
            return low, high
    return None


def note_lines(notes: Sequence[str], width: float) -> list[str]:
    """Arrange notes in lines of so many inches, several in a line where they fit."""
    lines: list[str] = []
    for note in notes:
        longer = f"{lines[-1]} · {note}" if lines else note
        fits = bool(lines) and text_width(longer) <= width
        lines[-1:] = [longer] if fits else [*lines[-1:], *wrapped(note, width).splitlines()]
    return lines


def save_figure(
    figure: Figure, path: str | os.PathLike[str], sharpest: float | None = None
) -> None:
    """Write a figure as PNG, SVG or PDF, by the end of the name; it appears whole or not at all."""
    kind = os.path.splitext(os.fspath(path))[1][1:].lower()
    data = to_png(figure, sharpest) if kind == "png" else to_vector(figure, kind)
    with atomic_write(path) as file:
        file.write(data)


def to_vector(figure: Figure, kind: str) -> bytes:
    """Render a figure as "svg" or "pdf" with text as text; the same figure gives the same bytes."""
    import matplotlib

    if kind not in FORMATS or kind == "png":
        raise UsageError(f"a figure can be written as {', '.join(FORMATS)}, but not as {kind!r}")
    buffer = io.BytesIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "pivec", "pdf.fonttype": 42}
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format=kind, metadata=dated[kind], dpi=300)
    return buffer.getvalue()


def to_png(figure: Figure, sharpest: float | None = None) -> bytes:
    """Render a figure as PNG of at most 300 kB, as sharp as that and ``sharpest`` dpi allow.

    By default it has 200 dpi, or what gives a small figure 1500 dots from left to right.
    Where all its shades take too much room, it gets a palette of 256 before it gets coarser. The
    same figure gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    buffer = io.BytesIO()
    sharpest = sharpest or max(200.0, 1500.0 / float(figure.get_size_inches()[0]))
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
