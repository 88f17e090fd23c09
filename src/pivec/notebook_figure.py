"""A figure that a notebook shows without pyplot; imported where something is drawn."""

from __future__ import annotations

from matplotlib.figure import Figure

_SHARPNESS = 100


class NotebookFigure(Figure):
    """A figure of matplotlib that gives notebooks its picture."""

    def _repr_png_(self) -> bytes:
        from pivec.figures import to_png

        return to_png(self, _SHARPNESS)
