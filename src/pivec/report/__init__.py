"""What a comparison leaves behind: tables, figures and one page.

- `PolicyRow`, `PairRow`, `ReportData`: what is known about the policies compared.
- `write_distances`, `write_pairs_csv`, `write_map_csv`: tables.
- `Comparison`: all of it in memory, with plots.
- `map_figure`, `distances_figure`, and `save_png`: pictures.
- `write_report`: one HTML file that opens without a network; sections/ holds its parts.
- explained/: what explanations look like, on the terminal and as pages.
"""
