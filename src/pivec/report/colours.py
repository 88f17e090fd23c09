"""Colours: a palette for groups that colour-blind readers can tell apart, and scales."""

from __future__ import annotations

# After Okabe & Ito 2008 and Tol 2021, ordered so that the first few differ most.
GROUP_PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
    "#7262C3",
    "#999933",
    "#882255",
    "#44AA99",
    "#B3955B",
    "#AA4499",
)
# Policies without a run, and policies that are there for context only.
LONE_COLOUR = "#6E7781"
REFERENCE_COLOUR = "#B9BFC6"

# Sixteen even steps through matplotlib's viridis and plasma, for the page.
VIRIDIS = (
    "#440154", "#481a6c", "#472f7d", "#414487", "#39568c", "#31688e", "#2a788e", "#23888e",
    "#1f988b", "#22a884", "#35b779", "#54c568", "#7ad151", "#a5db36", "#d2e21b", "#fde725",
)  # fmt: skip
PLASMA = (
    "#0d0887", "#330597", "#5002a2", "#6a00a8", "#8405a7", "#9c179e", "#b12a90", "#c33d80",
    "#d35171", "#e16462", "#ed7953", "#f68f44", "#fca636", "#fec029", "#f9dc24", "#f0f921",
)  # fmt: skip


def group_colours(n: int) -> list[str]:
    """One colour a group; after twelve the palette comes again darker, then lighter.

    Examples
    --------
    >>> group_colours(2)
    ['#0072B2', '#E69F00']
    >>> len(set(group_colours(36)))
    36
    """
    shades = (("#000000", 0.0), ("#000000", 0.42), ("#FFFFFF", 0.45))
    colours = []
    for i in range(n):
        towards, share = shades[(i // len(GROUP_PALETTE)) % len(shades)]
        colours.append(_mixed(GROUP_PALETTE[i % len(GROUP_PALETTE)], towards, share))
    return colours


def _mixed(colour: str, towards: str, share: float) -> str:
    if share == 0.0:
        return colour
    parts = (
        round((1 - share) * int(colour[k : k + 2], 16) + share * int(towards[k : k + 2], 16))
        for k in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02X}" for part in parts)
