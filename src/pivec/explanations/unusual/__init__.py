"""Episodes unlike their policy's others, and states where no policy has been.

reach.py     how far from the regions of a space its policies get
outside.py   states beyond that, also as a warning
episodes.py  how far episodes are from their policy's others
result.py    what is found out
unusual.py   all of it: `pivec.unusual`
films.py     clips of unusual episodes
figure.py    figures
"""
