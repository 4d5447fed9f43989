"""A person's pose and the camera, from where joints are in one image or two: see README.md."""

import jax
import jax.numpy as jnp
import numpy as np
from skeleton import JOINTS, LIMBS, NUM_TURNS, PARENTS, SHARES, projections, skeleton

import invlift

#: Where the cameras are along x, m; standard deviation of a joint's place in the image.
BOTH, ONE, NOISE = (0.0, 0.3), (0.0,), 0.0005
SCENE = 1
AXES = {"joint": JOINTS, "axis": ["x", "y", "z"]}

PRIOR = {
    "turn": invlift.normal(np.zeros(3), np.deg2rad([40.0, 10.0, 10.0])),
    "pose": invlift.normal(np.zeros(NUM_TURNS), 1.0),
    "stature": invlift.Unknown(invlift.lognormal(median=1.69, factor=1.06), "m"),
    "shares": invlift.Unknown(
        invlift.lognormal(median=np.array(list(SHARES.values())), factor=1.04),
        axes={"limb": list(SHARES)},
    ),
    "aside": invlift.Unknown(invlift.normal(np.zeros(2), 0.3), "m"),
    "depth": invlift.Unknown(invlift.lognormal(median=4.0, factor=1.2), "m"),
}


def joints_of(turn, pose, stature, shares, aside, depth):
    """Joints, (19, 3), in the frame of the first camera."""
    return skeleton(turn, pose, stature * shares) + jnp.append(aside, depth)


def drawn(rng, num):
    """Unknowns drawn from the prior, by name, (num, ...)."""
    parts = {name: getattr(each, "distribution", each) for name, each in PRIOR.items()}
    return {
        name: jax.vmap(part.transform)(rng.standard_normal((num, part.num_white)))
        for name, part in parts.items()
    }


def simulated(scene=SCENE, cameras=BOTH, noise=NOISE):
    """Joints of a scene, (19, 3), and what the cameras see of them, (c, 19, 2)."""
    rng = np.random.default_rng(scene)
    joints = np.asarray(jax.vmap(lambda each: joints_of(**each))(drawn(rng, 1))[0])
    image = np.asarray(projections(joints, cameras))
    return joints, image + noise * rng.standard_normal((2, *image.shape[1:]))[: len(cameras)]


def problem_of(image, cameras, noise=NOISE):
    """Pose, person and place behind images, (c, 19, 2), by cameras."""

    def model(**unknowns):
        joints = joints_of(**unknowns)
        return {"image": projections(joints, cameras)}, {"joints": joints}

    names = ["left", "right"][: len(cameras)]
    axes = {"image": {"camera": names, "joint": JOINTS, "side": ["u", "v"]}, "joints": AXES}
    noise = invlift.known_noise(noise)
    return invlift.inverse_problem(model, PRIOR, noise, {"image": image}, axes=axes)


def binocular():
    """Of the simulated scene by two cameras."""
    return problem_of(simulated()[1], BOTH)


def monocular():
    """The same by the first of them."""
    return problem_of(simulated(cameras=ONE)[1], ONE)


problem = binocular


# Limbs of known lengths --------------------------------------------------------------------------

#: Draws from which principal components of poses are made, and standard deviation beside them, m.
NUM_POSES, REST = 4000, 0.02


def lengths(joints, data):
    """Lengths of the limbs less what they are, (18,)."""
    return jnp.linalg.norm(joints[1:] - joints[PARENTS], axis=1) - data["lengths"]


def log_density(joints, data):
    """Of the image, and of a normal prior of the joints' places."""
    missed = (projections(joints, ONE) - data["image"]) / data["noise"]
    away = data["whitening"] @ (joints - data["mean"]).ravel()
    return -0.5 * jnp.sum(missed**2) - 0.5 * away @ away


def near_mean(rng_key, data):
    """Joints, roughly, from which chains are moved to where limbs have their lengths."""
    return {"joints": data["mean"] + 0.05 * jax.random.normal(rng_key, (19, 3))}


def principal_poses(known):
    """Mean, (19, 3), and whitening matrix, (57, 57), of people with limbs of known lengths, (18,).

    A normal distribution with mean and covariance of draws from the prior of angles, and REST
    beside it.
    """
    places = drawn(np.random.default_rng(0), NUM_POSES)
    shares = np.zeros(len(SHARES))
    shares[LIMBS] = known  # of both sides the same
    places |= {"stature": np.ones(NUM_POSES), "shares": np.tile(shares, (NUM_POSES, 1))}
    poses = jax.jit(jax.vmap(lambda each: joints_of(**each)))(places)
    poses = np.asarray(poses).reshape(NUM_POSES, -1)
    values, axes = np.linalg.eigh(np.cov(poses.T) + REST**2 * np.eye(57))
    return poses.mean(axis=0).reshape(19, 3), axes.T / np.sqrt(values)[:, None]


def limbs_of(joints, image, noise):
    """Joints behind an image, (1, 19, 2), of a person with the limbs of given joints, (19, 3)."""
    known = np.linalg.norm(joints[1:] - joints[PARENTS], axis=1)
    mean, whitening = principal_poses(known)
    data = {"lengths": known, "image": image, "noise": np.array(noise), "mean": mean}
    data |= {"whitening": whitening}
    unknowns = {"joints": invlift.Unknown((19, 3), "m", AXES)}
    return invlift.manifold_problem(lengths, log_density, unknowns, data, start=near_mean)


def limbs(scene=SCENE, noise=0.003):
    """Of the simulated scene by one camera that sees less sharply."""
    return limbs_of(*simulated(scene, ONE, noise), noise)
