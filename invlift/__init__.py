"""Posterior conductivity fields from a mesh and a few accurate sensors.

The pieces compose in one direction: read a mesh and sensors, choose a prior, assemble the forward
map, put the problem together, :func:`sample` it and look at the :class:`Posterior`.

Names are imported when they are first used: `import invlift` alone does not start JAX, so a script
can still configure it, and the command line answers at once.  `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
