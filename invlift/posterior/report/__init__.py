"""A run's results as one page: files to content (gather), content to HTML (render)."""

from invlift.posterior.report.content import Content, Group, gather
from invlift.posterior.report.render import render

__all__ = ["Content", "Group", "gather", "render"]
