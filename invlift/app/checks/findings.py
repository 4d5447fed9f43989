"""What was found, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: Literal["ok", "note", "bad"]
    name: str
    detail: str

    def __str__(self) -> str:
        """Return name and detail."""
        return f"{self.name}: {self.detail}"


@dataclass(frozen=True)
class Report:
    """Everything found."""

    findings: list[Finding]
    description: str = ""  # what a problem of a Python file is made of, in lines

    @property
    def is_good(self) -> bool:
        """Whether nothing bad was found."""
        return all(finding.level != "bad" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        bad = [finding.name for finding in self.findings if finding.level == "bad"]
        if bad:
            return f"Not ready to run: correct {', '.join(bad)} first."
        notes = [finding.name for finding in self.findings if finding.level == "note"]
        return f"Ready to run; take note of {', '.join(notes)}." if notes else "Ready to run."
