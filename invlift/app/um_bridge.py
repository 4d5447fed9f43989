"""The UM-Bridge protocol: models behind HTTP (Seelinger et al. 2023, J. Open Source Softw. 8(83)).

aiohttp is the server.  That of the package umbridge, built on it as well, listens on all addresses
of a machine, reads requests of any size and answers an exception of a model with a page that its
own clients cannot read.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from aiohttp import web

from invlift.app.served_models import ServedModel

PROTOCOL = 1.0
#: Longest request that is read, bytes: so many, and what each number of the longest one adds.
BYTES, BYTES_PER_NUMBER = 2**20, 32


class RefusedError(Exception):
    """A request that is answered with an error: its HTTP status, type and message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address of this machine; port 0 stands for any that is free.

    Raises
    ------
    OSError
        If there is no such address, or it is taken.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)


def build_application(models: Sequence[ServedModel], host: str) -> web.Application:
    """What answers requests for models; ``aiohttp.web.run_app`` runs it.

    A page that any browser shows could call a server of its own machine, under a name of the page's
    own that leads there (DNS rebinding).  Hence only requests are answered that name the address
    they have reached, `host` or this machine as theirs, and that no page of another server makes.

    Parameters
    ----------
    models : sequence of ServedModel
    host : str
        Name or address that it listens on.

    Returns
    -------
    aiohttp.web.Application
    """
    by_name = {model.name: model for model in models}
    names = {host.lower(), "localhost", socket.gethostname().lower()}

    @web.middleware
    async def answer(request: web.Request, handler: Callable) -> web.StreamResponse:
        try:
            _check_origin(request, names)
            return web.json_response(await handler(request))
        except RefusedError as error:
            return _error(error.status, error.kind, str(error))
        except web.HTTPException as error:
            return _error(error.status, "InvalidInput", error.text)
        except Exception as error:
            return _error(500, "ModelError", f"{type(error).__name__}: {error}")

    async def info(request: web.Request) -> dict:
        return {"protocolVersion": PROTOCOL, "models": list(by_name)}

    async def reply(request: web.Request) -> dict:
        content = await request.read()
        return await asyncio.to_thread(_reply, by_name, request.path, content)

    largest = max(2 * model.num_inputs + model.num_outputs for model in models)
    app = web.Application(middlewares=[answer], client_max_size=BYTES + BYTES_PER_NUMBER * largest)
    app.router.add_get("/Info", info)
    for path in _REPLIES:
        app.router.add_post(path, reply)
    return app


def _error(status: int, kind: str, message: str) -> web.Response:
    return web.json_response({"error": {"type": kind, "message": message}}, status=status)


def _check_origin(request: web.Request, names: set[str]) -> None:
    """Check that a request is meant for this server, and made by no page of another.

    Raises
    ------
    RefusedError
        If not.
    """
    called = request.headers.get("Host", "")
    try:
        name = urlsplit(f"//{called}").hostname
    except ValueError:
        name = None
    if name not in names | {request.transport.get_extra_info("sockname")[0]}:
        expected = ", ".join(sorted(names))
        raise RefusedError(
            403, "InvalidInput", f"Host: expected one of {expected}, found {called!r}"
        )
    origin = request.headers.get("Origin")
    if origin not in (None, f"http://{called}"):
        raise RefusedError(403, "InvalidInput", f"Origin: expected none, found {origin!r}")


def _reply(models: Mapping[str, ServedModel], path: str, content: bytes) -> dict:
    try:
        request = json.loads(content)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise RefusedError(400, "InvalidInput", "expected a JSON object")
    name = request.get("name")
    model = models.get(name) if isinstance(name, str) else None
    if model is None:
        known = ", ".join(models)
        raise RefusedError(400, "ModelNotFound", f"expected one of {known}, found {name!r}")
    return _REPLIES[path](model, request)


def _input_of(model: ServedModel, request: Mapping[str, Any]) -> np.ndarray:
    given = request.get("input")
    if not isinstance(given, list) or len(given) != 1:
        raise RefusedError(400, "InvalidInput", "input: expected a list of one list of numbers")
    return _vector(given[0], model.num_inputs, "input[0]")


def _vector(given: Any, size: int, name: str) -> np.ndarray:
    """The finite numbers of a list.

    Raises
    ------
    RefusedError
        If it holds anything else, or another number of them.
    """
    found = f"{len(given)} entries" if isinstance(given, list) else type(given).__name__
    if isinstance(given, list) and len(given) == size:
        is_number = [isinstance(x, int | float) and not isinstance(x, bool) for x in given]
        if all(is_number) and all(map(_is_finite, given)):
            return np.array(given, dtype=float)
        found = "an entry that is none"
    raise RefusedError(
        400, "InvalidInput", f"{name}: expected {size} finite numbers, found {found}"
    )


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _sizes(key: str, attribute: str) -> Callable:
    return lambda model, request: {key: [getattr(model, attribute)]}


def _support(model: ServedModel, request: Mapping[str, Any]) -> dict:
    names = ("Evaluate", "Gradient", "ApplyJacobian", "ApplyHessian")
    return {"support": dict.fromkeys(names, True)}


def _evaluate(model: ServedModel, request: Mapping[str, Any]) -> dict:
    return {"output": [_finite(model.evaluate(_input_of(model, request)))]}


def _derivative(attribute: str, *vectors: tuple[str, str]) -> Callable:
    """A reply made of an input and of vectors, each with the attribute that is its size."""

    def reply(model: ServedModel, request: Mapping[str, Any]) -> dict:
        for index in ("outWrt", "inWrt", "inWrt1", "inWrt2"):
            if request.get(index, 0) != 0:
                raise RefusedError(400, "InvalidInput", f"{index}: expected 0, the only one")
        given = [_vector(request.get(name), getattr(model, size), name) for name, size in vectors]
        return {"output": _finite(getattr(model, attribute)(_input_of(model, request), *given))}

    return reply


def _finite(values: np.ndarray) -> list[float]:
    if not np.all(np.isfinite(values)):
        raise RefusedError(
            500, "ModelError", "the model has no finite value there: stay nearer to the prior"
        )
    return values.tolist()


_SENS, _VEC = ("sens", "num_outputs"), ("vec", "num_inputs")
_REPLIES = {
    "/ModelInfo": _support,
    "/InputSizes": _sizes("inputSizes", "num_inputs"),
    "/OutputSizes": _sizes("outputSizes", "num_outputs"),
    "/Evaluate": _evaluate,
    "/Gradient": _derivative("gradient", _SENS),
    "/ApplyJacobian": _derivative("apply_jacobian", _VEC),
    "/ApplyHessian": _derivative("apply_hessian", _SENS, _VEC),
}
