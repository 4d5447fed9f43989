"""Trains the generator of this example and writes it to decoder.npz: see README.md.

    pip install scikit-learn
    python examples/inpainting/train.py     # some seconds

A variational autoencoder with normal pixels (Kingma & Welling 2014) on the 1,797 images of digits
that scikit-learn brings along, 8 x 8 pixels (E. Alpaydin & C. Kaynak 1998, Optical Recognition of
Handwritten Digits, UCI Machine Learning Repository, doi 10.24432/C50P49, CC BY 4.0).  The last 97
are left out of the training and written beside the weights.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

CODE, HIDDEN, NUM_TRAINED, NUM_STEPS, BATCH = 8, 128, 1700, 3000, 100
FILE = Path(__file__).parent / "decoder.npz"


def layer(key, num_in, num_out):
    """Weights of a layer before the training."""
    return {
        "weights": jax.random.normal(key, (num_in, num_out)) / np.sqrt(num_in),
        "bias": jnp.zeros(num_out),
    }


def applied(layers, value):
    """A network of a value."""
    for each in layers[:-1]:
        value = jnp.tanh(value @ each["weights"] + each["bias"])
    return value @ layers[-1]["weights"] + layers[-1]["bias"]


def bound(weights, key, images):
    """The negative evidence lower bound of an image."""
    code, log_spread = jnp.split(applied(weights["encoder"], images), 2, axis=-1)
    drawn = code + jnp.exp(log_spread) * jax.random.normal(key, code.shape)
    missed = (images - jax.nn.sigmoid(applied(weights["decoder"], drawn))) * jnp.exp(
        -weights["log_noise"]
    )
    likelihood = -0.5 * missed**2 - weights["log_noise"]
    divergence = 0.5 * (code**2 + jnp.exp(2.0 * log_spread) - 1.0) - log_spread
    return jnp.mean(jnp.sum(divergence, axis=-1) - jnp.sum(likelihood, axis=-1))


def main():
    """Train, and write the decoder."""
    images = (load_digits().data / 16.0).astype(np.float32)
    trained, left_out = images[:NUM_TRAINED], images[NUM_TRAINED:]
    keys = jax.random.split(jax.random.key(1), 6)
    weights = {
        "encoder": [layer(keys[0], 64, HIDDEN), layer(keys[1], HIDDEN, 2 * CODE)],
        "decoder": [layer(keys[2], CODE, HIDDEN), layer(keys[3], HIDDEN, 64)],
        "log_noise": jnp.full(64, -1.5),
    }
    schedule = optax.cosine_decay_schedule(2e-3, NUM_STEPS)
    search = optax.adam(schedule)

    @jax.jit
    def steps(weights, state, key):
        def step(carry, key):
            weights, state = carry
            key_rows, key_code = jax.random.split(key)
            rows = jax.random.randint(key_rows, (BATCH,), 0, NUM_TRAINED)
            value, slope = jax.value_and_grad(bound)(weights, key_code, jnp.asarray(trained)[rows])
            change, state = search.update(slope, state)
            weights = optax.apply_updates(weights, change)
            # No pixel less noisy than the 17 grey levels of the images.
            weights["log_noise"] = jnp.maximum(weights["log_noise"], np.log(0.03))
            return (weights, state), value

        (weights, state), values = jax.lax.scan(step, (weights, state), jax.random.split(key, 1000))
        return weights, state, values.mean()

    state = search.init(weights)
    for number in range(NUM_STEPS // 1000):
        weights, state, value = steps(weights, state, jax.random.fold_in(keys[4], number))
        others = bound(weights, keys[5], left_out)
        print(f"{1000 * (number + 1)} steps: bound {value:.2f}, of those left out {others:.2f}")
    first, second = weights["decoder"]
    np.savez_compressed(
        FILE,
        weights_1=first["weights"],
        bias_1=first["bias"],
        weights_2=second["weights"],
        bias_2=second["bias"],
        noise=np.exp(weights["log_noise"]),
        left_out=np.round(16 * left_out).astype(np.uint8),
    )
    print(f"{FILE.name}: {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
