"""Kinds of readings in a sensor table, one module each, and their location on a mesh."""
