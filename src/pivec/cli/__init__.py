"""The command line: parse, call, print.

main.py       the commands together; mistakes and warnings
comparing.py  a comparison, in one go or a stage at a time
answers.py    questions about policies
explain.py    what differs (explained.py: what of it is filmed, and where it goes)
states.py     collecting, importing, exporting and checking states
train.py      training policies
reproduce.py  the paper's figures and tables
options.py    arguments and options: those of `pivec.options`, and how their text is read
"""
