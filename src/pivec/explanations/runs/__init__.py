"""What changed along a training run, from checkpoint to checkpoint.

checkpoints.py    the checkpoints of a run, and what is known of them
stretches.py      which of them can be told apart
spans.py          spans of a feature in which time is spent most differently
changes.py        what changed from one to another, in words
feature_times.py  the same of single features
runs.py           all of a run: `pivec.explain_run`
figure.py         a figure of it
"""
