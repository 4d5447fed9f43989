"""Constrained Hamiltonian Monte Carlo on any system that offers the functions of `system`."""
