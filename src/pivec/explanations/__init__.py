"""What differs: the regions of a space and their faces, frames and clips, unusual episodes.

folder.py       what a comparison left: its space, its states, its environment
assigned.py     the region of every state
"""
