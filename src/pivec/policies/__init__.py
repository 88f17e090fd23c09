"""Policies: the protocol, networks in NumPy, and loading them from files and Python objects.

- `policy`: the protocols `Policy`, `BatchPolicy` and `RecurrentPolicy`; `PolicyInfo`
- `load`: from names (paths, globs, ``random``, ``module:object``) to labelled policies; new
  checkpoints while training runs; groups of training runs
- `callables`: functions and objects as policies; `UniformPolicy`, the random one
- `networks`: `NetworkPolicy` (perceptrons), `Stack` (many at once), `MaskedPolicy`,
  `RecurrentNetwork` (LSTM) and `OutputPolicy` (any model)
- `distributions`: the table of action distributions
- `extractors`: feature extractors before a network, as for images and dictionaries
- `forward`, `kernels`: the arithmetic of networks; only `kernels` imports Numba
- `tensors`: torch files and pickles, read without running anything
- `formats`: the registry of file formats; one module per library

Modules are imported on first use, so readers only when a file of their format is met;
``__init__.pyi`` lists the names. Nothing here needs torch or Numba at import.
"""

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
