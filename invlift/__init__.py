"""Posterior conductivity fields from a mesh and a few accurate sensors.

The steps are: read a mesh and sensors, choose a prior, assemble the forward map, make the problem,
:func:`sample` it, and examine the :class:`Posterior`.

Names are imported when they are first used. `import invlift` alone does not import JAX, so that a
script can still configure it and the command line starts fast.  `__init__.pyi` lists the names.
The first name that imports JAX enables double precision, unless JAX has started already.
"""

import importlib.metadata
import sys

import lazy_loader

from invlift.problems.problem_base import ProblemBase

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str):
    """Import and return a name of the library, or return ``__version__``."""
    if name == "__version__":
        return importlib.metadata.version(__name__)
    value = _find(name)
    if "jax" in sys.modules and name != "enable_x64":
        from invlift.programs.precision import enable_x64_before_start

        enable_x64_before_start()
    return value


# Problems get functions of higher layers here, as modules do not import from higher layers.
ProblemBase.posterior_of = staticmethod(lambda *run, **asked: _find("posterior_of")(*run, **asked))
