"""Who acts: policies, and the ways to get them from what people have.

- `policy`: the protocols `Policy`, `BatchPolicy` and `RecurrentPolicy`, and what is known about a
  policy
- `network`: `NetworkPolicy`, a multilayer perceptron, and `Stack`, many that answer as one batch;
  `forward`, `kernels`: their arithmetic
- `head`, `heads`: what the outputs of a network mean
- `normaliser`: how observations are normalised first
- `lstm`: `RecurrentNetwork`, with a memory
- `outputs`: `OutputPolicy`, any other function from observations to outputs
- `uniform`: `UniformPolicy`, the random one
- `callables`: functions and objects of the user as policies
- `cnn`, `extractors`: networks that see images and dictionaries; `masked`: those that are told
  which actions are allowed
- `saved`, `sb3` (with `sb3_networks`, `sb3_run`), `cleanrl`, `layouts` (other libraries of torch),
  `rllib`, `flax` and `brax` (with `msgpack`, `pickled`), `orbax`, `described`, `vectors`,
  `onnx_models`, `neat_files` (with `neat`), `torch_models`: file formats; `trusted`: what only
  Stable-Baselines3 itself reads; `unreadable`: what nobody reads, named for what it is
- `pickles`, `tensors`: read them without running anything
- `formats`: which extension is read by which reader, and what a reader gets
- `paths`: labels, groups and steps from file names; `grouping`: which runs make a group
- `load`: from names (paths, globs, ``random``, ``module:object``) to policies; `files`: those of
  files; `copies`: several names of a policy

Importing this package needs NumPy only.
"""
