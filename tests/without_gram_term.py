"""A wrong density, and the default sampler of it, for negative controls: the example's own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples" / "calibration"))

from without_gram import ChmcWithoutGramTerm, WithoutGramTerm

__all__ = ["ChmcWithoutGramTerm", "WithoutGramTerm"]
