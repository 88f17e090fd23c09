"""What sets the runs of two groups apart.

contrasts.py  shares of time of runs held against each other
groups.py     two groups: `pivec.explain_groups`
figure.py     a figure of them
"""
