"""Forward map and log posterior of a problem behind HTTP, by the UM-Bridge protocol.

Seelinger et al. (2023), J. Open Source Softw. 8(83). aiohttp is the server. That of the package
umbridge, built on it as well, listens on all addresses of a machine and answers an exception of a
model with a page that its own clients cannot read.
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
#: What a model is asked for, and by what besides x.
OPERATIONS = {
    "Evaluate": (), "Gradient": ("sens",), "ApplyJacobian": ("vec",),
    "ApplyHessian": ("sens", "vec"),
}  # fmt: skip


class ServedModel:
    """A function of one vector, x (N,) to f(x) (k,), compiled, with its derivatives by JAX.

    `num_inputs` and `num_outputs` are N and k. `fn` is a function of `of` and x, of which `of` is a
    pytree, an argument of the compiled programs, that its arrays be no constants in them.
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
        """Value of one of the :data:`OPERATIONS` at x (N,).

        f(x), (k,); "Gradient", of s (k,), J(x)^T s (N,); "ApplyJacobian", of v (N,), J(x) v (k,);
        "ApplyHessian", of s and v, the derivative of J(x)^T s along v, (N,).
        """
        return np.asarray(self._functions[operation](self._of, x, *vectors))


def served_models(problem: InverseProblem) -> list[ServedModel]:
    """What is served of a problem with d readings and Q = h + m unknowns.

    ``forward``, white coefficients w (m,) to noise-free readings (d,), whose prior is standard
    normal; and ``posterior``, unknowns theta = (zeta, w) (Q,) to the logarithm of their posterior
    density (1,), up to a constant, with respect to Lebesgue measure. For noise of known scale theta
    is w; exact readings leave no such density, and there is ``forward`` alone.

    Zeta are the variables that the distributions of the noise's unknowns transform, from which a
    client can make these itself: not the coordinate that chains take, which depends on the data.
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
    """A socket that listens at an address that is free, else an InputError; port 0 is any."""
    try:
        return socket.create_server((host, port))
    except (OSError, UnicodeError) as error:
        where, expected = f"--host {host} --port {port}", "an address of this machine that is free"
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(where, expected, found, "choose another address or port") from None


def build_application(models: Sequence[ServedModel]) -> web.Application:
    """What answers requests for models; ``aiohttp.web.run_app`` runs it.

    Requests of web pages are refused, as any page that a browser shows can make them: browsers give
    the page's address, in the header Origin, with each POST.
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
        if not np.isfinite(vector).all():  # as of null
            raise ValueError(f"{name}: expected finite numbers, found null or another")
    values = model.ask(operation, *vectors.values())
    if not np.all(np.isfinite(values)):
        raise ArithmeticError("the model has no finite value there: stay nearer to the prior")
    return {"output": [values.tolist()] if operation == "Evaluate" else values.tolist()}
