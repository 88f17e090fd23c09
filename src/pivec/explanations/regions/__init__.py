"""The regions of a space: in words, who visits them and when, pictures.

names.py     features in words, with units
words.py     regions in words
visits.py    states that were visited, the nearest to the middle of each region
regions.py   who visits them, and when: `pivec.regions`
pictures.py  pictures of regions
figure.py    a figure of all of them
"""
