"""What differs: the regions of a space and their faces, frames and clips, unusual episodes.

folder.py       what a comparison left: its space, its states, its environment
assigned.py     the region of every state
names.py        features in words, with units
region_words.py regions in words
visits.py       when regions are visited, and the states nearest to their middle
regions.py      regions with a face, with regions_figure.py
region_frames.py  pictures of them, from few episodes
takes.py        what is filmed: an episode from its seed
sources.py      who acted: a policy found again
replay.py       episodes played again, bit for bit
drawing.py      an environment drawn step by step, in a process of its own
frames.py       pictures of states
montage.py      pictures put together to a clip, with text below them
clips.py        parts of episodes to watch, side by side
difference.py   the difference of two policies, with pictures
cuts.py         where in its episodes a difference shows most
pairs.py        a difference taken apart: `explain`
pair_films.py   its pictures and clips
overview.py     notable pairs of a whole comparison
spans.py        spans of a feature in which time is spent most differently
runs.py         what changed along a training run (checkpoints, stretches, changes, feature_times)
groups.py       what sets the runs of two groups apart (contrasts)
episodes.py     how far episodes are from their policy's others
unusual.py      the most unusual episodes (unusual_result, unusual_figure, unusual_films)
unknown.py      states where no policy has been
"""
