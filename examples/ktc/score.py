"""The class of each pixel by the posterior, and its score against the truth, for each tank.

    python examples/ktc/score.py RESULTS TRUTH [RESULTS TRUTH ...] [PICTURE.png]

RESULTS is the folder of a run, TRUTH the file true1.mat of the challenge.  The score is that of the
organisers (Räsänen et al. 2024): the mean over the resistive and the conductive class of the
structural similarity of two images of zeros and ones, whose moments are weighted by a Gaussian of
80 pixels; 1 is perfect.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import meshio
import numpy as np
import scipy.io
from matplotlib.tri import LinearTriInterpolator, Triangulation
from scipy.ndimage import gaussian_filter

SIZE, RADIUS = 256, 0.115  # pixels; m
#: Standard deviation of the Gaussian in pixels, where it ends, and constants of the similarity.
WIDTH, TRUNCATED, CONSTANTS = 80, 2.0, (1e-4, 9e-4)
CLASSES = ["background", "resistive", "conductive"]


def similarity(truth: np.ndarray, found: np.ndarray) -> float:
    """Structural similarity of two images (n, n) of zeros and ones, its mean over all pixels."""

    def smooth(image):
        return gaussian_filter(image, WIDTH, mode="constant", truncate=TRUNCATED)

    inside = smooth(np.ones(truth.shape))
    means = [smooth(each) / inside for each in (truth, found)]
    pairs = [(truth, truth), (found, found), (truth, found)]
    squares = [smooth(one * two) / inside for one, two in pairs]
    variances = [squares[k] - means[k] ** 2 for k in range(2)]
    covariance = squares[2] - means[0] * means[1]
    (a, b), (one, two) = CONSTANTS, means
    top = (2.0 * one * two + a) * (2.0 * covariance + b)
    return float(np.mean(top / ((one**2 + two**2 + a) * (variances[0] + variances[1] + b))))


def score(truth: np.ndarray, found: np.ndarray) -> float:
    """The score of classes 0, 1 (resistive) and 2 (conductive), (n, n)."""
    return float(np.mean([similarity(1.0 * (truth == k), 1.0 * (found == k)) for k in (1, 2)]))


def on_pixels(values: np.ndarray, mesh: meshio.Mesh) -> np.ndarray:
    """Values at nodes on the pixels of the challenge, the first row at the top; NaN outside."""
    step = 2.0 * RADIUS / SIZE
    centres = -RADIUS + step * (np.arange(SIZE) + 0.5)
    x, y = np.meshgrid(centres, centres[::-1])
    grid = Triangulation(*mesh.points[:, :2].T, mesh.cells_dict["triangle"])
    return np.ma.filled(LinearTriInterpolator(grid, values)(x, y), np.nan)


def classes(mesh: meshio.Mesh) -> np.ndarray:
    """The most probable class of each pixel, 0 outside the tank."""
    shares = [on_pixels(mesh.point_data[f"probability_{name}"], mesh) for name in CLASSES]
    return np.argmax(np.nan_to_num(shares), axis=0)


def main(arguments: list[str]) -> None:
    """Print the scores, and draw what was found beside the truth."""
    picture = arguments.pop() if arguments[-1].endswith(".png") else None
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    figure, axes = plt.subplots(len(pairs), 6, figsize=(12, 2.1 * len(pairs)), squeeze=False)
    total = 0.0
    for row, (results, truth_file) in zip(axes, pairs, strict=True):
        mesh = meshio.read(Path(results) / "posterior.vtu")
        truth = scipy.io.loadmat(truth_file)["truth"]
        found = classes(mesh)
        total += (own := score(truth, found))
        print(f"{results}: {own:.3f}")
        shown = ["log_conductivity_mean", "log_conductivity_sd", "probability_resistive"]
        for axis, name in zip(row, [*shown, "probability_conductive"], strict=False):
            limits = {"vmin": 0.0, "vmax": 1.0} if name.startswith("prob") else {}
            axis.imshow(on_pixels(mesh.point_data[name], mesh), **limits)
            axis.set_title(name.replace("log_conductivity_", "").replace("_", " "), fontsize=9)
        for axis, image, name in ((row[4], found, f"class: {own:.2f}"), (row[5], truth, "truth")):
            axis.imshow(image, vmin=0, vmax=2, cmap="Set2")
            axis.set_title(name, fontsize=9)
    print(f"sum {total:.3f} of {len(pairs)}")
    for axis in axes.flat:
        axis.set_axis_off()
    if picture:
        figure.tight_layout()
        figure.savefig(picture, dpi=80)


if __name__ == "__main__":
    main(sys.argv[1:])
