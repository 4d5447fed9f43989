"""A skeleton of 19 joints, how its angles make a pose, and how cameras see it: see README.md.

Metres and radians.  x is to the right in the image, y up, z away from the camera; at rest the
person stands and faces the camera, so that their left is at the right of the image.
"""

import jax
import jax.numpy as jnp
import numpy as np

#: Lengths of limbs as shares of the stature (Drillis & Contini 1966; Winter 2009, figure 4.1).
SHARES = {
    "hip": 0.0955, "thigh": 0.245, "shank": 0.246, "foot": 0.152, "trunk": 0.288, "head": 0.182,
    "collar": 0.129, "upper arm": 0.186, "forearm": 0.146, "hand": 0.108,
}  # fmt: skip
#: By joint: its parent, the limb between both, and where that points at rest.
TREE = {
    "pelvis": None,
    "neck": ("pelvis", "trunk", (0, 1, 0)),
    "head": ("neck", "head", (0, 1, 0)),
}
#: Of the joint at a limb's near end: about which axis it turns, least angle, at rest and most
#: (degrees).  About x forward is positive where a limb hangs, about y and z outward on the left.
TURNS = {
    "neck": [("x", -80, -5, 30), ("z", -35, 0, 35), ("y", -40, 0, 40)],
    "head": [("x", -50, -5, 50), ("z", -40, 0, 40)],
}
for side, sign in (("left", 1), ("right", -1)):
    for joint, parent, limb, rest, turns in (
        ("hip", "pelvis", "hip", (sign, 0, 0), []),
        ("knee", " hip", "thigh", (0, -1, 0),
         [("x", -20, 10, 110), ("z", -20, 5, 45), ("y", -40, 0, 40)]),
        ("ankle", " knee", "shank", (0, -1, 0), [("x", -135, -10, 0)]),
        ("toes", " ankle", "foot", (0, 0, -1), [("x", -45, 0, 20), ("y", -25, -5, 25)]),
        ("shoulder", "neck", "collar", (sign, 0, 0), [("z", -10, 5, 30), ("y", -20, 0, 20)]),
        ("elbow", " shoulder", "upper arm", (0, -1, 0),
         [("z", -20, 15, 150), ("x", -50, 20, 160), ("y", -80, 0, 80)]),
        ("wrist", " elbow", "forearm", (0, -1, 0), [("x", 0, 30, 145)]),
        ("hand", " wrist", "hand", (0, -1, 0), [("x", -60, 0, 60), ("z", -25, 0, 25)]),
    ):  # fmt: skip
        name = f"{side} {joint}"
        TREE[name] = (side + parent if parent.startswith(" ") else parent), limb, rest
        TURNS[name] = [
            (axis, *((low, middle, high) if axis == "x" or sign > 0 else (-high, -middle, -low)))
            for axis, low, middle, high in turns
        ]
JOINTS = list(TREE)
#: Of all joints but the pelvis: parent, and where the limb points at rest.
PARENTS = np.array([JOINTS.index(tree[0]) for tree in TREE.values() if tree])
RESTS = np.array([tree[2] for tree in TREE.values() if tree], float)
LIMBS = [list(SHARES).index(tree[1]) for tree in TREE.values() if tree]
NUM_TURNS = sum(map(len, TURNS.values()))
#: For each of the same joints three turns one after the other: which angle it is (the last, 0,
#: where there are fewer), and the generator of rotations about its axis.
GENERATORS = {
    "x": [[0, 0, 0], [0, 0, -1], [0, 1, 0]],
    "y": [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
    "z": [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
}
WHICH, TURNING, numbers = [], [], iter(range(NUM_TURNS))
for joint in JOINTS[1:]:
    axes = [axis for axis, *_ in TURNS[joint]]
    WHICH.append([next(numbers) for _ in axes] + [NUM_TURNS] * (3 - len(axes)))
    TURNING.append([GENERATORS[axis] for axis in axes] + [GENERATORS["x"]] * (3 - len(axes)))
WHICH, TURNING = np.array(WHICH), np.array(TURNING, float)


def _levels():
    """Joints by their distance from the pelvis, and whose limbs lead to each, (19, 18)."""
    above = {0: []}
    for number, parent in enumerate(PARENTS, 1):
        above[number] = [*above[parent], number - 1]
    levels = [[n for n in above if len(above[n]) == depth] for depth in range(1, 6)]
    return levels, np.array([[limb in above[n] for limb in range(18)] for n in range(19)], float)


LEVELS, PATHS = _levels()


def angles_of(pose):
    """Angles, (33,), of standard normal numbers, (33,): 0 is at rest, none is out of range.

    The logit of an angle within its range is normal with standard deviation 1.
    """
    table = np.deg2rad([turn[1:] for turns in TURNS.values() for turn in turns])
    low, rest, high = table.T
    share = np.clip((rest - low) / (high - low), 0.02, 0.98)
    return low + (high - low) * jax.nn.sigmoid(np.log(share / (1.0 - share)) + pose)


def rotations(generators, angles):
    """Matrices, (..., 3, 3), of angles, (...), by Rodrigues' formula."""
    sine, cosine = jnp.sin(angles)[..., None, None], jnp.cos(angles)[..., None, None]
    return np.eye(3) + sine * generators + (1.0 - cosine) * (generators @ generators)


def skeleton(turn, pose, lengths):
    """Joints, (19, 3), relative to the pelvis.

    ``turn`` are angles of the whole body about y, x and z, (3,), ``pose`` standard normal numbers,
    (33,), and ``lengths`` those of the limbs, (10,), in the order of SHARES.
    """
    angles = jnp.append(angles_of(pose), 0.0)[WHICH]
    first, second, third = jnp.moveaxis(rotations(TURNING, angles), 1, 0)
    own = first @ second @ third
    about = np.array([GENERATORS[axis] for axis in "yxz"], float)
    y, x, z = rotations(about, turn)
    frames = jnp.zeros((19, 3, 3)).at[0].set(y @ x @ z)
    for level in map(np.array, LEVELS):
        frames = frames.at[level].set(frames[PARENTS[level - 1]] @ own[level - 1])
    limbs = jnp.einsum("nij,nj->ni", frames[1:], RESTS * lengths[np.array(LIMBS)][:, None])
    return PATHS @ limbs


def projections(joints, cameras):
    """Images, (c, 19, 2), of joints, (19, 3), by cameras at places (c,) along x; focal length 1."""
    places = np.pad(np.array(cameras)[:, None], [(0, 0), (0, 2)])
    shifted = joints - places[:, None]
    return shifted[..., :2] / shifted[..., 2:]
