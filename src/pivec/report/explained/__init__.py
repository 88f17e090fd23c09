"""What explanations look like: on the terminal, and on pages with pictures and clips.

shell.py         the shell of all these pages, and pictures within them
parts.py         parts of a distance as markup
pair.py          the page of two policies, and of a whole comparison
console.py       the same on the terminal
runs.py          a run, and groups of runs: page and terminal
regions.py       the page of regions
unusual.py       unusual episodes on the terminal
unusual_page.py  and on a page
"""
