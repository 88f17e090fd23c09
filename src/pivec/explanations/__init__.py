"""What differs: the regions of a space and their faces, frames and clips, unusual episodes.

folder.py       what a comparison left: its space, its states, its environment
assigned.py     the region of every state
names.py        features in words, with units
region_words.py regions in words
regions.py      who visits them, when, and where nearest to their middle
"""
