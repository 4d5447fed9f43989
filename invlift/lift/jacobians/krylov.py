"""Iterative solution of linear systems by products with their matrix."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def conjugate_residuals(
    product: Callable[[jax.Array], jax.Array],
    rhs: jax.Array,
    tolerance: float,
    max_products: int,
) -> jax.Array:
    """Solve A x = rhs by the method of generalised conjugate residuals.

    Each product with A extends the Krylov space in which |rhs - A x| is minimised.  The residuals
    are those of GMRES, but x is known after each product, so that a few products are all the work.

    Parameters
    ----------
    product : callable
        x -> A x, (d,) to (d,); A need not be symmetric.  It should be preconditioned, close to the
        identity.
    rhs : (d,)
    tolerance : float
        Stop at |rhs - A x| <= tolerance |rhs|.
    max_products : int
        Maximum number of products.

    Returns
    -------
    (d,)
        x.  The best so far if the products did not suffice or are not accurate enough; NaN if a
        product is NaN.

    Notes
    -----
    Eisenstat, Elman & Schultz (1983), "Variational iterative methods for nonsymmetric systems of
    linear equations", section 2.
    """
    limit = tolerance * jnp.linalg.norm(rhs)
    # Products that are sums of solutions with weights of both signs are accurate to 1e-11 of the
    # largest.  Images of longer directions are round-off, which grows with each product.
    longest = 1e9

    def is_running(loop):
        _, residual, _, _, _, count, is_full, _ = loop
        return (jnp.linalg.norm(residual) > limit) & (count < max_products) & ~is_full

    def iterate(loop):
        solution, residual, newest, directions, images, count, _, largest = loop
        direction, image = newest, product(newest)
        # The images, A times the directions, are orthonormal; rows not reached yet are zero.
        before = jnp.linalg.norm(image)
        largest = jnp.maximum(largest, before / jnp.linalg.norm(newest))
        for _ in range(2):
            along = images @ image
            direction, image = direction - along @ directions, image - along @ images
        after = jnp.linalg.norm(image)
        is_full = after <= 1e-10 * before
        is_full |= largest * jnp.linalg.norm(direction) > longest * after
        scale = jnp.where(is_full, 0.0, 1.0 / after)
        direction, image = scale * direction, scale * image
        length = image @ residual
        return (
            solution + length * direction,
            residual - length * image,
            image,
            directions.at[count].set(direction),
            images.at[count].set(image),
            count + 1,
            is_full,
            largest,
        )

    none = jnp.zeros((max_products, rhs.size), rhs.dtype)
    start = (jnp.zeros_like(rhs), rhs, rhs, none, none, 0, False, 0.0)
    return jax.lax.while_loop(is_running, iterate, start)[0]
