"""The rest of an image of which the upper part is known: see README.md.

invlift run examples/inpainting/inpainting.py
python examples/inpainting/inpainting.py            # the comparison: some minutes
python examples/inpainting/inpainting.py --plot     # from the saved tables
"""

import argparse
import csv
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.patches import Rectangle

import invlift
from invlift.lift.jacobians import Diagonal
from invlift.posterior.figures.style import CHAIN_COLOURS, new_figure, saved

FOLDER = Path(__file__).resolve().parent
WEIGHTS = dict(np.load(FOLDER / "decoder.npz"))
NOISE = WEIGHTS["noise"].astype(float)
CODE = len(WEIGHTS["weights_1"])
#: Pixels that are known, the first of 64, and which of the images left out of the training it is.
NUM_KNOWN, IMAGE = 24, 44
#: Images and draws of the picture; chains, and their iterations in the comparison.
SHOWN, NUM_SHOWN = (44, 30, 10, 96), 8
CHAINS, WARMUP, DRAWS = 4, 300, 1500
#: Standard deviations of the normal kernel of ABC.
WIDTHS = (0.1, 0.03, 0.01)


def image_of(code):
    """Mean of the pixels, (64,), of a code, (8,): the generator without its noise."""
    layers = {name: value.astype(float) for name, value in WEIGHTS.items()}
    hidden = jnp.tanh(code @ layers["weights_1"] + layers["bias_1"])
    return jax.nn.sigmoid(hidden @ layers["weights_2"] + layers["bias_2"])


def left_out(number=IMAGE):
    """An image that the generator has not seen, (64,), from 0 to 1."""
    return WEIGHTS["left_out"][number] / 16.0


def generator(code, noise):
    """The known pixels, each with noise of its own, and the whole image without it."""
    image = image_of(code)
    known = image[:NUM_KNOWN] + NOISE[:NUM_KNOWN] * noise
    return known, {"image": image.reshape(8, 8)}


def problem(number=IMAGE, kernel=None):
    """The codes and noise that give the known pixels of an image exactly; or nearly, with ABC."""
    inputs = {
        "code": invlift.normal(np.zeros(CODE), 1.0),
        "noise": invlift.normal(np.zeros(NUM_KNOWN), 1.0),
    }
    structure = None if kernel else Diagonal()
    known = left_out(number)[:NUM_KNOWN]
    axes = {"image": {"row": range(8), "column": range(8)}}
    return invlift.inverse_problem(generator, inputs, kernel, known, axes=axes, structure=structure)


def directed(number=IMAGE):
    """The same with the noise as that of readings, whose density is known here."""

    def model(code):
        image = image_of(code)
        return image[:NUM_KNOWN], {"image": image.reshape(8, 8)}

    code = {"code": invlift.normal(np.zeros(CODE), 1.0)}
    noise = invlift.known_noise(NOISE[:NUM_KNOWN])
    return invlift.inverse_problem(model, code, noise, left_out(number)[:NUM_KNOWN])


def drawn(problem, kernel, draws):
    """A run, and processor seconds of its sampling."""
    began = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(
            problem, kernel, chains=CHAINS, warmup=WARMUP, draws=draws, seed=1,
            executor=one_at_a_time,
        )  # fmt: skip
    share = (time.process_time() - began[0]) / (time.perf_counter() - began[1])
    return run, share * sum(chain.sampling_seconds for chain in run.chains)


def compare():
    """Effective draws of the slowest entry of the code for each second, by each way."""
    hmc = invlift.KERNELS["hmc"](num_steps=30)
    ways = {
        "exact inputs, constrained HMC": (problem(), "chmc"),
        "density of the code, HMC": (directed(), invlift.KERNELS["hmc"]()),
        "density of the code, NUTS": (directed(), "nuts"),
    }
    ways |= {
        f"ABC of width {width:g}, HMC": (problem(kernel=invlift.known_noise(width)), hmc)
        for width in WIDTHS
    }
    rows = []
    for name, (made, kernel) in ways.items():
        run, seconds = drawn(made, kernel, DRAWS)
        found = made.posterior(run).summary()
        found = found[found.index.str.startswith("code[")]
        ess, r_hat = found["ess_bulk"].min(), found["r_hat"].max()
        rows.append([name, ess, r_hat, seconds, ess / seconds])
        print(f"{name}: {rows[-1][-1]:.0f} a second, R-hat {r_hat:.3f}", flush=True)
    write("efficiency.csv", ["way", "ess", "r_hat", "seconds", "ess_per_second"], rows)


def complete():
    """Completions of each image: the truth, and some draws."""
    rows = []
    for number in SHOWN:
        run, _ = drawn(problem(number), "chmc", 600)
        images = np.concatenate([chain.draws["image"] for chain in run.chains]).reshape(-1, 64)
        chosen = images[np.linspace(0, len(images), NUM_SHOWN, endpoint=False).astype(int) + 50]
        rows += [[number, *image] for image in (left_out(number), *chosen)]
    write("completions.csv", ["image", *range(64)], rows)


def write(name, heading, rows):
    """Save a table."""
    (FOLDER / "data").mkdir(exist_ok=True)
    with (FOLDER / "data" / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(heading)
        writer.writerows([f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows)


def plot():
    """Truth and completions of each image; what was known is framed."""
    with (FOLDER / "data" / "completions.csv").open(encoding="utf-8", newline="") as stream:
        rows = [[float(v) for v in row[1:]] for row in list(csv.reader(stream))[1:]]
    images = np.array(rows).reshape(len(SHOWN), NUM_SHOWN + 1, 8, 8)
    height = NUM_KNOWN // 8
    with new_figure(0.9 * (NUM_SHOWN + 1), 1.0 * len(SHOWN)) as figure:
        grid = figure.subplots(*images.shape[:2])
        for axes, title in zip(grid[0], ["truth", *NUM_SHOWN * ["draw"]], strict=True):
            axes.set_title(title, loc="center")
        for panels, row in zip(grid, images, strict=True):
            for axes, image in zip(panels, row, strict=True):
                shown = np.concatenate([row[0][:height], image[height:]])
                axes.imshow(shown, cmap="gray_r", vmin=0.0, vmax=1.0)
                axes.set(xticks=[], yticks=[])
                axes.add_patch(
                    Rectangle((-0.5, -0.5), 8, height, fill=False, color=CHAIN_COLOURS[4], lw=1.5)
                )
        saved(figure, FOLDER / "completions.png")


def main():
    """Sample and draw; or only draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw the saved table, do not sample")
    if not parser.parse_args().plot:
        invlift.enable_x64()
        complete()
        compare()
    plot()


if __name__ == "__main__":
    main()
