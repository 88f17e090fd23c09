"""The regions of a space: words, who visits them and when, and the states nearest to their middle."""

from __future__ import annotations

from pivec.explanations.region_words import region_ranges as region_ranges
from pivec.explanations.region_words import region_words as region_words
