"""Compiled programs and their cache, pytrees as arguments, double precision, and derivatives."""
