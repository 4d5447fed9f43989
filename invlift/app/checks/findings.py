"""Findings of checks, and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "note", "bad"]
    name: str
    detail: str

    def __str__(self) -> str:
        """Return name and detail."""
        return f"{self.name}: {self.detail}"


@dataclass(frozen=True)
class Report:
    """All findings of the check of a problem."""

    findings: list[Finding]
    description: str = ""  # lines that describe the problem of a Python file

    @property
    def is_good(self) -> bool:
        """Whether no finding is bad."""
        return all(finding.level != "bad" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        bad = [finding.name for finding in self.findings if finding.level == "bad"]
        if bad:
            return f"Not ready to run: correct {', '.join(bad)} first."
        notes = [finding.name for finding in self.findings if finding.level == "note"]
        return f"Ready to run; take note of {', '.join(notes)}." if notes else "Ready to run."
