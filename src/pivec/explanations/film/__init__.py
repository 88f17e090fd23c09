"""Episodes played again and filmed: every state must be the stored one, bit for bit.

takes.py     what is filmed: an episode from its seed
sources.py   who acted: a policy found again
replay.py    episodes played again
drawing.py   an environment drawn step by step, in a process of its own
frames.py    pictures of states
montage.py   pictures put together to a clip, with text below them
clips.py     parts of episodes to watch, side by side
"""
