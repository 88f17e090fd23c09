"""What was visited: VisitedStates in memory, the store on disk.

visited.py      `VisitedStates`, three levels (policies, episodes, states), flat in memory
record.py       what is kept of one policy; episodes that somebody recorded
arrays.py       building VisitedStates from plain arrays, with every mistake named
derived.py      data made of data: joined, regrouped, thinned
parts.py        going through states in parts, by the engine
moments.py      pooled mean and deviation, and features that are constant
arrow.py        policies in Arrow files: a record batch a policy, a row an episode
index.py        the index of a store, `store.json`
folder.py       the folder of a store: files are put there whole
remote.py       such a folder on object storage, with copies of its files here
shards.py       which policies of a large store lie in one file
shelf.py        the files behind an index: names, checksums, what a killed run left
store.py        `Store`: what is written, put together and loaded
recorder.py     `StateRecorder`: a store that grows while somebody else's loop runs
choosing.py     which policies of many are meant
recorded.py     states that others recorded: found, and read
recordings.py   such states alone, with no environment
files.py        files of them, by path, folder or glob
tables.py       tables with a row a state: Parquet, CSV, Feather, frames
columns.py      which column of a table tells what
log_rows.py     rows of a log, cut into episodes
hdf5.py         recorded episodes in D4RL's HDF5 files
npz.py          recorded episodes in .npz and .npy files
minari_data.py  recorded episodes in Minari datasets
export.py       a store for other tools: pandas, Parquet, .npz, Minari
"""
