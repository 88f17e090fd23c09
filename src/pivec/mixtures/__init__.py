"""The background model: additive statistics, EM, MAP adaptation, and one kernel per device.

model.py         `Mixture`, `Statistics` of states about it, which add up, and sources of states
passes.py        `accumulate`, from a block and a mixture to statistics, by the kernel of a device
fit.py           `fit_mixture`: start and EM; MAP adaptation of means, weights and variances
*_kernel.py      the kernels: NumPy, Numba, torch and, if installed, Triton
"""

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
