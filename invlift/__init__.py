"""Posterior conductivity fields from a mesh and a few accurate sensors.

The pieces compose in one direction: read a mesh and sensors, choose a prior, assemble the forward
map, put the problem together, :func:`sample` it and look at the :class:`Posterior`.

Names are imported when they are first used: `import invlift` alone does not import JAX, so a script
can still configure it, and the command line answers at once.  `__init__.pyi` lists them.  The first
name that imports JAX switches its double precision on, unless JAX has started already.
"""

import importlib.metadata
import sys

import lazy_loader

from invlift.problems.problem_base import ProblemBase

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str):
    """A name of the library, imported now, or ``__version__``."""
    if name == "__version__":
        return importlib.metadata.version(__name__)
    value = _find(name)
    if "jax" in sys.modules and name != "enable_x64":
        from invlift.programs.precision import enable_x64_before_start

        enable_x64_before_start()
    return value


# Problems get functions of higher layers here, as no module imports one of a higher layer.
ProblemBase.posterior_of = staticmethod(lambda *run, **asked: _find("posterior_of")(*run, **asked))
