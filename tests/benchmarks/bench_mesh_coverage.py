"""Do bands of the posterior hold truths of a finer mesh, with its error and with it taken out?

    python tests/benchmarks/bench_mesh_coverage.py [--rings N] [--sensors N] [--noise S] [--sets N]
        [--smooth] [WAY ...]

Truth and readings are of a disc with edges of a fourth; ``--smooth``: the truth is a field of the
given mesh.  Prints for each way how many of the nodes 90 % and 50 % bands of the posterior hold,
the mean of z, the error of the field's mean in standard deviations of the posterior, with standard
errors over the data sets, the root mean square of z, and seconds of processor time for a data set;
first the error of the mesh at the truth.
"""

import argparse
import sys
import time
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from finer_truths import Disc, Held, predicted

from invlift.problems.choice import lift_choice


def main():
    """Print the table, again after each five data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", default=["none", "1", "mode"])
    parser.add_argument("--rings", type=int, default=12)
    parser.add_argument("--sensors", type=int, default=300)
    parser.add_argument("--noise", type=float, default=0.03)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--smooth", action="store_true")
    options = parser.parse_args()
    lift_choice.FEW = options.sensors  # another number for each data set is compiled each time
    body = Disc(options.rings, options.sensors)
    found = {name: [] for name in options.ways}
    seconds, errors = dict.fromkeys(found, 0.0), []
    for number in range(options.sets):
        rng = np.random.default_rng(1000 + number)
        truth = body.truth(rng, not options.smooth)
        here = np.asarray(predicted(body.model, truth.field[None]))[0]
        errors.append(np.abs(here - truth.readings) / options.noise)
        values = truth.readings + options.noise * rng.standard_normal(options.sensors)
        problem = body.problem(values, options.noise)
        for name in found:
            start = time.process_time()
            found[name].append(body.held(body.ways()[name](problem), truth))
            seconds[name] += time.process_time() - start
        if (number + 1) % 5 == 0 or number + 1 == options.sets:
            print_table(options, found, seconds, np.array(errors))


def print_table(options, found: dict[str, list[Held]], seconds, errors):
    num = len(errors)
    kind = "of the given mesh" if options.smooth else "of the finer mesh"
    line = (
        f"{options.rings} rings, {options.sensors} sensors, noise {options.noise}, field {kind}, "
    )
    line += (
        f"{num} data sets: at the truth readings are off by {errors.max(axis=1).mean():.2g} sd, "
    )
    print(line + f"median {np.median(errors):.2g}")
    for name, held in found.items():
        held = np.array(held) * [100.0, 100.0, 1.0]
        mean, error = held.mean(axis=0), held.std(axis=0) / np.sqrt(num)
        row = f"| {name} | {mean[0]:.1f} ({error[0]:.1f}) | {mean[1]:.1f} ({error[1]:.1f}) "
        row += f"| {mean[2]:.2f} ({error[2]:.2f}) | {np.sqrt(np.mean(held[:, 2] ** 2)):.2f} "
        print(row + f"| {seconds[name] / num:.1f} |", flush=True)


if __name__ == "__main__":
    main()
