"""Targets made of an inverse problem: what samplers walk on."""
