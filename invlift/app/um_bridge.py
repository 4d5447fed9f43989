"""The UM-Bridge protocol: models behind HTTP (Seelinger et al. 2023, J. Open Source Softw. 8(83)).

aiohttp is the server.  That of the package umbridge, built on it as well, listens on all addresses
of a machine, reads requests of any size and answers an exception of a model with a page that its
own clients cannot read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from invlift.app.served_models import ServedModel
from invlift.errors import InputError

PROTOCOL = 1.0
#: Longest request that is read, bytes: so many, and what each number of the longest one adds.
BYTES, BYTES_PER_NUMBER = 2**20, 32


class RefusedError(Exception):
    """A request that is answered with an error of this type and HTTP status."""

    def __init__(self, kind: str, message: str, status: int = 400) -> None:
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
    """A socket that listens at an address of this machine; port 0 stands for any that is free.

    An InputError if there is no such address, or it is taken.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host {host} --port {port}",
            "an address of this machine that is free",
            getattr(error, "strerror", None) or str(error),
            "choose another address or port",
        ) from None


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
        return await asyncio.to_thread(_reply, by_name, request.path, content)

    largest = max(2 * model.num_inputs + model.num_outputs for model in models)
    app = web.Application(middlewares=[answer], client_max_size=BYTES + BYTES_PER_NUMBER * largest)
    app.router.add_get("/Info", info)
    about_models = "ModelInfo", "InputSizes", "OutputSizes"
    for name in (*about_models, "Evaluate", "Gradient", "ApplyJacobian", "ApplyHessian"):
        app.router.add_post(f"/{name}", reply)
    return app


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
        message = f"Host: expected one of {expected}, found {called!r}"
        raise RefusedError("InvalidInput", message, 403)
    origin = request.headers.get("Origin")
    if origin not in (None, f"http://{called}"):
        raise RefusedError("InvalidInput", f"Origin: expected none, found {origin!r}", 403)


def _reply(models: Mapping[str, ServedModel], path: str, content: bytes) -> dict:
    try:
        request = Request.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ", ".join(["request", *map(str, first["loc"])])
        raise RefusedError("InvalidInput", f"{place}: {first['msg']}") from None
    model = models.get(request.name)
    if model is None:
        message = f"name: expected one of {', '.join(models)}, found {request.name!r}"
        raise RefusedError("ModelNotFound", message)
    match path:
        case "/ModelInfo":
            names = "Evaluate", "Gradient", "ApplyJacobian", "ApplyHessian"
            return {"support": dict.fromkeys(names, True)}
        case "/InputSizes":
            return {"inputSizes": [model.num_inputs]}
        case "/OutputSizes":
            return {"outputSizes": [model.num_outputs]}
    if len(request.input) != 1:
        raise RefusedError("InvalidInput", "input: expected a list of one list of numbers")
    x = _vector("input", request.input[0], model.num_inputs)
    if path == "/Evaluate":
        return {"output": [_finite(model.evaluate(x))]}
    if path == "/ApplyJacobian":
        vector = _vector("vec", request.vec, model.num_inputs)
        return {"output": _finite(model.apply_jacobian(x, vector))}
    sensitivity = _vector("sens", request.sens, model.num_outputs)
    if path == "/Gradient":
        return {"output": _finite(model.gradient(x, sensitivity))}
    vector = _vector("vec", request.vec, model.num_inputs)
    return {"output": _finite(model.apply_hessian(x, sensitivity, vector))}


def _vector(name: str, given: list[float], size: int) -> np.ndarray:
    if len(given) != size:
        message = f"{name}: expected {size} numbers, found {len(given)}"
        raise RefusedError("InvalidInput", message)
    return np.array(given)


def _finite(values: np.ndarray) -> list[float]:
    if not np.all(np.isfinite(values)):
        message = "the model has no finite value there: stay nearer to the prior"
        raise RefusedError("ModelError", message, 500)
    return values.tolist()
