"""The appendix' heatmaps: supervectors of more and fewer components, with more and less data."""
