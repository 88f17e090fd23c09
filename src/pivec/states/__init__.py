"""What was visited: VisitedStates in memory, the store on disk.

visited.py      `VisitedStates`, three levels (policies, episodes, states), flat in memory
chunks.py       the arrays of many policies, opened when they are needed
arrays.py       building one from plain arrays, with every mistake named
constants.py    features that show nothing
thinning.py     fewer states for a fit, drawn evenly
record.py       everything that is kept of one policy
arrow.py        one policy as one Arrow file: a row an episode
checksums.py    checksums of files, and names after them
store.py        the folder of such files, with its index `store.json`
recorded.py     states that others recorded, beside policies or alone
stored.py       the policies of one store as recorded states for another
regroup.py      episodes put together anew, as the policies of another
recorder.py     `StateRecorder`: a store that grows while somebody else's loop runs
raw.py          one recorded episode as it was found
npz.py          recorded episodes in .npz files
minari_data.py  recorded episodes in Minari datasets
tables.py       pandas and Parquet
export.py       a store for other tools
clips.py        short films of episodes
"""

from pivec.states.store import Store, load
from pivec.states.visited import VisitedStates

__all__ = ["Store", "VisitedStates", "load"]
