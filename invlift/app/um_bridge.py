"""The UM-Bridge protocol: models behind HTTP (Seelinger et al. 2023, J. Open Source Softw. 8(83)).

The server of the package umbridge listens on all addresses of a machine and answers an exception of
a model with a page that its own clients cannot read; hence this one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from invlift.app.served_models import ServedModel

PROTOCOL = 1.0
#: Longest request that is read, bytes.
MAX_BYTES = 2**26


class RefusedError(Exception):
    """A request that is answered with an error: its HTTP status, type and message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def build_server(models: Sequence[ServedModel], host: str, port: int) -> ThreadingHTTPServer:
    """A server of models, bound to an address; ``serve_forever`` runs it, ``shutdown`` ends it.

    Parameters
    ----------
    models : sequence of ServedModel
    host : str
    port : int
        0 for any that is free: see ``server_address``.

    Raises
    ------
    OSError
        If it cannot be bound there.
    """
    by_name = {model.name: model for model in models}

    class Handler(BaseHTTPRequestHandler):
        """Answers one request after another of a connection."""

        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:  # the base class's name
            self._answer(lambda: _info(by_name, self.path))

        def do_POST(self) -> None:
            self._answer(lambda: _reply(by_name, self.path, self._request()))

        def _request(self) -> Mapping[str, Any]:
            try:
                length = int(self.headers.get("Content-Length", ""))
            except ValueError:
                length = -1
            if not 0 <= length <= MAX_BYTES:
                self.close_connection = True
                raise RefusedError(
                    400, "InvalidInput", f"expected at most {MAX_BYTES} bytes of JSON"
                )
            try:
                content = json.loads(self.rfile.read(length))
            except (ValueError, RecursionError):
                content = None
            if not isinstance(content, dict):
                raise RefusedError(400, "InvalidInput", "expected a JSON object")
            return content

        def _answer(self, reply: Callable[[], dict]) -> None:
            status = 200
            try:
                content = reply()
            except RefusedError as error:
                status = error.status
                content = {"error": {"type": error.kind, "message": str(error)}}
            except Exception as error:
                status = 500
                message = f"{type(error).__name__}: {error}"
                content = {"error": {"type": "ModelError", "message": message}}
            body = json.dumps(content, allow_nan=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None:
            """Say nothing: a sampler asks thousands of times."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


def _info(models: Mapping[str, ServedModel], path: str) -> dict:
    if path != "/Info":
        raise RefusedError(404, "InvalidInput", f"there is no {path}")
    return {"protocolVersion": PROTOCOL, "models": list(models)}


def _reply(models: Mapping[str, ServedModel], path: str, request: Mapping[str, Any]) -> dict:
    name = request.get("name")
    model = models.get(name) if isinstance(name, str) else None
    if path not in _REPLIES:
        raise RefusedError(404, "InvalidInput", f"there is no {path}")
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
