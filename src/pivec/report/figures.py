"""The figures of a comparison: the map, the distances, the distance travelled."""

from __future__ import annotations

from pivec.report.heatmap import draw_distances
from pivec.report.map_figure import draw_map
from pivec.report.travel import draw_travel

__all__ = ["draw_distances", "draw_map", "draw_travel"]
