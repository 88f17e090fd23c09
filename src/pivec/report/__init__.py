"""What is shown of a comparison: figures, tables, pages and lines on the terminal.

findings           everything that is shown, computed once
groups             comparison of groups of runs, and its tables
episode_map        the map of episodes, with their kinds and unusual ones
layout             positions on the map and orders in heatmaps
policy_map         the map of policies as a picture
distance_figures   pictures of the heatmap, of runs and of groups of runs
site               the pages of a comparison folder, and links between them
script_data        the data of the page's script in web/
pages              the files of a comparison, and pages from templates/
console            what commands print
explanation_views  explanations as pages and on the terminal
evaluation         the figure of `pivec evaluate`
"""

from __future__ import annotations

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
