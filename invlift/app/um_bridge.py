"""Forward map and log posterior of a problem behind HTTP, by the UM-Bridge protocol.

Seelinger et al. (2023), J. Open Source Softw. 8(83). aiohttp is the server: that of the package
umbridge, built on it as well, listens on all addresses of a machine, reads requests of any size and
answers an exception of a model with a page that its own clients cannot read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import jax
import numpy as np
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from invlift.app.sampling import target_of
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem
from invlift.samplers.kernels.euclidean import HMC

PROTOCOL = 1.0
#: Longest request that is read, bytes: so many, and what each number of the longest one adds.
BYTES, BYTES_PER_NUMBER = 2**20, 32
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
    is w.
    """
    target, sizes = target_of(problem, HMC()), (problem.prior.num_white, problem.num_observations)
    return [
        ServedModel("forward", *sizes, lambda of, x: of.model(of.prior.transform(x)), problem),
        ServedModel("posterior", target.dimension, 1, lambda of, x: of.logdensity(x)[None], target),
    ]


class RefusedError(Exception):
    """A request that is answered with an error of this type and HTTP status."""

    def __init__(self, message: str, kind: str = "InvalidInput", status: int = 400) -> None:
        super().__init__(message)
        self.kind, self.status = kind, status


class Request(BaseModel):
    """The content of a request, by the keys of the protocol."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    name: str = ""
    input: list[list[float]] = []
    sens: list[float] = []
    vec: list[float] = []
    #: Of several vectors: here there is one.
    out_wrt: Literal[0] = Field(0, alias="outWrt")
    in_wrt: Literal[0] = Field(0, alias="inWrt")
    in_wrt_1: Literal[0] = Field(0, alias="inWrt1")
    in_wrt_2: Literal[0] = Field(0, alias="inWrt2")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address that is free, else an InputError; port 0 is any."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        where, expected = f"--host {host} --port {port}", "an address of this machine that is free"
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(where, expected, found, "choose another address or port") from None


def build_application(models: Sequence[ServedModel], host: str) -> web.Application:
    """What answers requests for models; ``aiohttp.web.run_app`` runs it.

    A page that any browser shows could call a server of its own machine, under a name of the page's
    own that leads there (DNS rebinding).  Hence only requests are answered that name the address
    they have reached, `host`, on which it listens, or this machine as theirs, and that no page of
    another server makes.
    """
    by_name = {model.name: model for model in models}
    names = {host.lower(), "localhost", socket.gethostname().lower()}

    @web.middleware
    async def answer(request: web.Request, handler: Callable) -> web.StreamResponse:
        try:
            _check_origin(request, names)
            return web.json_response(await handler(request))
        except RefusedError as error:
            status, kind, message = error.status, error.kind, str(error)
        except web.HTTPException as error:
            status, kind, message = error.status, "InvalidInput", error.text
        except Exception as error:
            status, kind, message = 500, "ModelError", f"{type(error).__name__}: {error}"
        return web.json_response({"error": {"type": kind, "message": message}}, status=status)

    async def info(request: web.Request) -> dict:
        return {"protocolVersion": PROTOCOL, "models": list(by_name)}

    async def reply(request: web.Request) -> dict:
        content = await request.read()
        return await asyncio.to_thread(_reply, by_name, request.path[1:], content)

    largest = max(2 * model.num_inputs + model.num_outputs for model in models)
    app = web.Application(middlewares=[answer], client_max_size=BYTES + BYTES_PER_NUMBER * largest)
    app.router.add_get("/Info", info)
    for name in ("ModelInfo", "InputSizes", "OutputSizes", *OPERATIONS):
        app.router.add_post(f"/{name}", reply)
    return app


def _check_origin(request: web.Request, names: set[str]) -> None:
    """Refuse a request that is not meant for this server, or made by a page of another."""
    called, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    try:
        name = urlsplit(f"//{called}").hostname
    except ValueError:
        name = None
    if name not in names | {request.transport.get_extra_info("sockname")[0]}:
        message = f"Host: expected one of {', '.join(sorted(names))}, found {called!r}"
        raise RefusedError(message, status=403)
    if origin not in (None, f"http://{called}"):
        raise RefusedError(f"Origin: expected none, found {origin!r}", status=403)


def _reply(models: Mapping[str, ServedModel], operation: str, content: bytes) -> dict:
    try:
        request = Request.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ", ".join(["request", *map(str, first["loc"])])
        raise RefusedError(f"{place}: {first['msg']}") from None
    model = models.get(request.name)
    if model is None:
        message = f"name: expected one of {', '.join(models)}, found {request.name!r}"
        raise RefusedError(message, "ModelNotFound")
    match operation:
        case "ModelInfo":
            return {"support": dict.fromkeys(OPERATIONS, True)}
        case "InputSizes":
            return {"inputSizes": [model.num_inputs]}
        case "OutputSizes":
            return {"outputSizes": [model.num_outputs]}
    if len(request.input) != 1:
        raise RefusedError("input: expected a list of one list of numbers")
    sizes = {"input": model.num_inputs, "sens": model.num_outputs, "vec": model.num_inputs}
    given = {"input": request.input[0], "sens": request.sens, "vec": request.vec}
    names = "input", *OPERATIONS[operation]
    for name in names:
        if len(given[name]) != sizes[name]:
            raise RefusedError(f"{name}: expected {sizes[name]} numbers, found {len(given[name])}")
    values = model.ask(operation, *(np.array(given[name]) for name in names))
    if not np.all(np.isfinite(values)):
        message = "the model has no finite value there: stay nearer to the prior"
        raise RefusedError(message, "ModelError", 500)
    return {"output": [values.tolist()] if operation == "Evaluate" else values.tolist()}
