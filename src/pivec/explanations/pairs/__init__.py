"""What differs between two policies.

difference.py  what is found out
pairs.py       a distance taken apart and put into words: `pivec.explain`
cuts.py        where in its episodes a difference shows most
films.py       pictures and clips of both
overview.py    notable pairs of a whole comparison
"""
