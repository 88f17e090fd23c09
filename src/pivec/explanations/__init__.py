"""What differs: the regions of a space and their faces, frames and clips, unusual episodes.

folder.py    what a comparison left: its space, its states, its environment
assigned.py  the region of every state
worded.py    words for regions and features
film/        episodes played again, pictures, clips
regions/     the regions of a space
pairs/       two policies
runs/        a training run
groups/      groups of runs
unusual/     unusual episodes and states
"""
