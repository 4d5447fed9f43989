"""Samplers of any target that offers the methods of :mod:`invlift.targets`."""
