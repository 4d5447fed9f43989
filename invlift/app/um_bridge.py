"""Serve forward map and log posterior of a problem over HTTP, by the UM-Bridge protocol.

Seelinger et al. (2023), J. Open Source Softw. 8(83). The server is aiohttp. The server of the
package umbridge also uses aiohttp, but it listens on all addresses of a machine, and answers an
exception of a model with a page that its clients cannot read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from aiohttp import web

from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.problems.problem import InverseProblem

#: Longest request that is read, bytes.
MAX_BYTES = 2**28
#: Operations of a model, and their arguments besides x.
OPERATIONS = {
    "Evaluate": (), "Gradient": ("sens",), "ApplyJacobian": ("vec",),
    "ApplyHessian": ("sens", "vec"),
}  # fmt: skip


class ServedModel:
    """Compiled function of a vector, x (N,) to f(x) (k,), with derivatives by JAX.

    `num_inputs` and `num_outputs` are N and k. `fn` is a function of `of` and x. `of` is a pytree
    and an argument of the compiled programs, so that its arrays are not constants in them.
    """

    def __init__(self, name: str, num_inputs: int, num_outputs: int, fn: Callable, of=None) -> None:
        def gradient(of, x, sensitivity):
            return jax.vjp(lambda x: fn(of, x), x)[1](sensitivity)[0]

        def jacobian(of, x, vector):
            return jax.jvp(lambda x: fn(of, x), (x,), (vector,))[1]

        def hessian(of, x, sensitivity, vector):
            return jax.jvp(lambda x: gradient(of, x, sensitivity), (x,), (vector,))[1]

        self.name, self.num_inputs, self.num_outputs, self._of = name, num_inputs, num_outputs, of
        functions = map(jax.jit, (fn, gradient, jacobian, hessian))
        self._functions = dict(zip(OPERATIONS, functions, strict=True))

    def ask(self, operation: str, x: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
        """Return the value of one of the :data:`OPERATIONS` at x (N,).

        "Evaluate" gives f(x), (k,). "Gradient" with s (k,) gives J(x)^T s, (N,). "ApplyJacobian"
        with v (N,) gives J(x) v, (k,). "ApplyHessian" with s and v gives the derivative of
        J(x)^T s along v, (N,).
        """
        return np.asarray(self._functions[operation](self._of, x, *vectors))


def served_models(problem: InverseProblem) -> list[ServedModel]:
    """Return the served models of a problem with d readings and Q = h + m unknowns.

    ``forward`` maps white coefficients w (m,), whose prior is standard normal, to noise-free
    readings (d,). ``posterior`` maps unknowns theta = (zeta, w) (Q,) to their log posterior density
    (1,), up to a constant, with respect to Lebesgue measure. For noise of known scale theta is w.
    Exact readings have no such density; then only ``forward`` is served.

    Zeta are the variables that the distributions of the unknowns of the noise transform, so that a
    client can compute these unknowns. They are not the coordinate of the chains, which depends on
    the data.
    """
    sizes = problem.prior.num_white, problem.num_observations
    forward = ServedModel("forward", *sizes, lambda of, x: of.model(of.prior.transform(x)), problem)
    if problem.noise.is_exact:
        return [forward]
    target = OrdinaryPosterior(problem)
    density = ServedModel(
        "posterior", target.dimension, 1, lambda of, x: of.logdensity(x)[None], target
    )
    return [forward, density]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at a free address; port 0 takes any free port.

    Raises an InputError if the address is not free.
    """
    try:
        return socket.create_server((host, port))
    except (OSError, UnicodeError) as error:
        where, expected = f"--host {host} --port {port}", "an address of this machine that is free"
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(where, expected, found, "choose another address or port") from None


def build_application(models: Sequence[ServedModel]) -> web.Application:
    """Return the application that answers requests for models, for ``aiohttp.web.run_app``.

    Requests of web pages are refused, as any page in a browser can send them. Browsers send the
    address of the page, in the header Origin, with each POST.
    """
    by_name = {model.name: model for model in models}

    async def info(request: web.Request) -> web.Response:
        return web.json_response({"protocolVersion": 1.0, "models": list(by_name)})

    async def reply(request: web.Request) -> web.Response:
        try:
            if page := request.headers.get("Origin"):
                raise ValueError(f"a request of the web page {page}: web pages are refused")
            content = await request.json()
            return web.json_response(
                await asyncio.to_thread(_reply, by_name, request.path[1:], content)
            )
        except ValueError as error:
            status, kind, message = 400, "InvalidInput", str(error)
        except (LookupError, TypeError) as error:
            status, kind, message = 400, "InvalidInput", f"{type(error).__name__}: {error}"
        except Exception as error:
            status, kind, message = 500, "ModelError", str(error)
        return web.json_response({"error": {"type": kind, "message": message}}, status=status)

    app = web.Application(client_max_size=MAX_BYTES)
    app.router.add_get("/Info", info)
    for name in ("ModelInfo", "InputSizes", "OutputSizes", *OPERATIONS):
        app.router.add_post(f"/{name}", reply)
    return app


def _reply(models: Mapping[str, ServedModel], operation: str, content: Mapping[str, Any]) -> dict:
    model = models.get(content["name"])
    if model is None:
        raise ValueError(f"name: expected one of {', '.join(models)}, found {content['name']!r}")
    match operation:
        case "ModelInfo":
            return {"support": dict.fromkeys(OPERATIONS, True)}
        case "InputSizes":
            return {"inputSizes": [model.num_inputs]}
        case "OutputSizes":
            return {"outputSizes": [model.num_outputs]}
    sizes = {"input": model.num_inputs, "sens": model.num_outputs, "vec": model.num_inputs}
    inputs = content["input"]
    if not isinstance(inputs, list) or len(inputs) != 1:
        found = f"{len(inputs)}" if isinstance(inputs, list) else "no list"
        raise ValueError(f"input: expected a list of one vector, found {found}")
    given = {"input": inputs[0], **{name: content[name] for name in OPERATIONS[operation]}}
    vectors = {name: np.asarray(values, dtype=float) for name, values in given.items()}
    for name, vector in vectors.items():
        if vector.shape != (sizes[name],):
            found = "null" if given[name] is None else ", ".join(map(str, vector.shape)) or "one"
            raise ValueError(f"{name}: expected {sizes[name]} numbers, found {found}")
        if not np.isfinite(vector).all():  # null becomes NaN
            raise ValueError(f"{name}: expected finite numbers, found null or another")
    values = model.ask(operation, *vectors.values())
    if not np.all(np.isfinite(values)):
        raise ArithmeticError("the model has no finite value there: stay nearer to the prior")
    return {"output": [values.tolist()] if operation == "Evaluate" else values.tolist()}
