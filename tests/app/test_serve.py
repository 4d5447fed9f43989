"""Models behind HTTP: UM-Bridge's own client against the values computed here."""

import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
import umbridge
from aiohttp import web
from command_line import call
from problem_files import write_problem

from invlift.app.build import build_problem
from invlift.app.problem_file import read_problem
from invlift.app.sampling import target_of
from invlift.app.um_bridge import ServedModel, build_application, listen, served_models
from invlift.samplers.kernels import HMC

NOISE = {"noise.sigma": {"distribution": "lognormal", "location": -1.0, "scale": 1.0}}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = write_problem(tmp_path_factory.mktemp("serve"), NOISE)
    return build_problem(read_problem(path)).problem


@pytest.fixture(scope="module")
def address(problem):
    listener = listen("127.0.0.1", 0)
    app = build_application(served_models(problem), "127.0.0.1")
    options = {"sock": listener, "print": None, "handle_signals": False}
    threading.Thread(target=web.run_app, args=(app,), kwargs=options, daemon=True).start()
    return listener.getsockname()


@pytest.fixture(scope="module", params=["forward", "posterior"])
def case(request, problem, address):
    """Client, function of JAX, sizes of its value and argument."""
    if request.param == "forward":

        def fn(white):
            return problem.model(problem.prior.transform(white))

        sizes = problem.num_observations, problem.prior.num_white
    else:
        target = target_of(problem, HMC())

        def fn(theta):
            return target.logdensity(theta)[None]

        sizes = 1, target.dimension
    client = umbridge.HTTPModel(f"http://{address[0]}:{address[1]}", request.param)
    return client, jax.jit(fn), *sizes


@pytest.fixture(scope="module")
def vectors(case):
    rng = np.random.default_rng(0)
    _, _, num_outputs, num_inputs = case
    return (
        0.5 * rng.normal(size=num_inputs),
        *rng.normal(size=(2, num_inputs)),
        rng.normal(size=num_outputs),
    )


def test_sizes_and_support(case):
    client, _, num_outputs, num_inputs = case
    assert client.get_input_sizes() == [num_inputs]
    assert client.get_output_sizes() == [num_outputs]
    for name in ("evaluate", "gradient", "apply_jacobian", "apply_hessian"):
        assert getattr(client, f"supports_{name}")()


def test_values_are_those_computed_here(case, vectors):
    client, fn, *_ = case
    x = vectors[0]
    (found,) = client([x.tolist()])
    np.testing.assert_allclose(found, fn(x), rtol=1e-12)
    # Negative control: another place.
    assert not np.allclose(client([(x + 0.1).tolist()])[0], fn(x))


def test_derivatives(case, vectors):
    """Against finite differences, and the two products with the Jacobian against each other."""
    client, fn, *_ = case
    x, v, other, s = vectors
    forward = np.array(client.apply_jacobian(0, 0, [x.tolist()], v.tolist()))
    back = np.array(client.gradient(0, 0, [x.tolist()], s.tolist()))
    assert s @ forward == pytest.approx(back @ v, rel=1e-10)
    step = 1e-5
    difference = (fn(x + step * v) - fn(x - step * v)) / (2 * step)
    np.testing.assert_allclose(forward, difference, rtol=1e-6, atol=1e-8)

    def hessian(vector):
        return np.array(client.apply_hessian(0, 0, 0, [x.tolist()], s.tolist(), vector.tolist()))

    assert other @ hessian(v) == pytest.approx(v @ hessian(other), rel=1e-8)
    there, here = (
        np.array(client.gradient(0, 0, [(x + sign * step * v).tolist()], s.tolist()))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(hessian(v), (there - here) / (2 * step), rtol=1e-5, atol=1e-6)


def post(address, path, body, **headers):
    connection = http.client.HTTPConnection(*address)
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


GOOD = {"name": "forward", "input": [[0.0] * 16]}
BAD = {
    "no JSON": ("/Evaluate", b"{", "InvalidInput"),
    "a list": ("/Evaluate", b"[]", "InvalidInput"),
    "nested": ("/Evaluate", b"[" * 100_000, "InvalidInput"),
    "no model": ("/Evaluate", b"{}", "ModelNotFound"),
    "unknown model": ("/Evaluate", json.dumps(GOOD | {"name": "x"}), "ModelNotFound"),
    "no such path": ("/Solve", json.dumps(GOOD), "InvalidInput"),
    "too short": ("/Evaluate", json.dumps(GOOD | {"input": [[0.0]]}), "InvalidInput"),
    "too many": ("/Evaluate", json.dumps(GOOD | {"input": [[0.0], [1.0]]}), "InvalidInput"),
    "text": ("/Evaluate", json.dumps(GOOD | {"input": [["0"] * 16]}), "InvalidInput"),
    "not a number": ("/Evaluate", json.dumps(GOOD | {"input": [[float("nan")] * 16]}), "Invalid"),
    "huge": ("/Evaluate", json.dumps(GOOD | {"input": [[10**400] * 16]}), "InvalidInput"),
    "no sens": ("/Gradient", json.dumps(GOOD), "InvalidInput"),
    "second output": ("/Gradient", json.dumps(GOOD | {"outWrt": 1, "sens": [0.0]}), "InvalidInput"),
    "out of range": ("/Evaluate", json.dumps(GOOD | {"input": [[1e6] * 16]}), "ModelError"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_have_an_answer_and_the_server_goes_on(address, name):
    path, body, kind = BAD[name]
    status, answer = post(address, path, body)
    assert status >= 400
    assert answer["error"]["type"].startswith(kind)
    assert answer["error"]["message"]
    assert post(address, "/Evaluate", json.dumps(GOOD))[0] == 200


OURS = json.dumps(GOOD).encode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:5000"}, 200),  # through a tunnel
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "pages.example"}, 403),
        ({"Host": "localhost.pages.example:4242"}, 403),
        ({"Host": "127.0.0.2"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Origin": "http://pages.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:4242", "Origin": "http://localhost:3000"}, 403),
    ],
)
def test_requests_of_web_pages_and_under_other_names_are_refused(address, headers, status):
    found, answer = post(address, "/Evaluate", OURS, **headers)
    assert found == status
    assert ("error" in answer) == (status == 403)


def exchange(address, text):
    """All that comes back on a connection until the server closes it."""
    with socket.create_connection(address) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(2**16), b""))


HEADERS = b"HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


def length_of(body):
    return f"Content-Length: {len(body)}\r\n".encode()


def test_two_lengths_are_refused(address):
    lengths = length_of(OURS) + length_of(OURS[:2])
    answer = exchange(address, b"POST /Evaluate " + HEADERS + lengths + b"\r\n" + OURS)
    assert b" 400 " in answer[:20]


def test_body_of_a_get_is_no_request(address):
    hidden = b"GET /hidden " + HEADERS + b"\r\n"
    first = b"GET /Info " + HEADERS.replace(b"Connection: close\r\n", length_of(hidden))
    second = b"GET /Info " + HEADERS + b"\r\n"
    answer = exchange(address, first + b"\r\n" + hidden + second)
    assert answer.count(b"HTTP/1.1 200") == answer.count(b"HTTP/1.1") == 2


def test_as_many_numbers_as_a_model_takes_are_read_and_not_many_more():
    """The length that is read follows from the largest model."""
    size = 300_000
    model = ServedModel("sum", size, 1, lambda of, x: x[:1] + x[-1:])
    listener = listen("127.0.0.1", 0)
    options = {"sock": listener, "print": None, "handle_signals": False}
    app = build_application([model], "127.0.0.1")
    threading.Thread(target=web.run_app, args=(app,), kwargs=options, daemon=True).start()
    address = listener.getsockname()
    x = -1.2345678901234567e-300 * np.linspace(1, 2, size)
    body = json.dumps({"name": "sum", "input": [x.tolist()], "sens": x.tolist()})
    assert post(address, "/Evaluate", body) == (200, {"output": [[x[0] + x[-1]]]})
    status, answer = post(address, "/Evaluate", body + " " * 20_000_000)
    assert status == 413
    assert answer["error"]["type"] == "InvalidInput"


@pytest.fixture
def served(tmp_path):
    """The command at work: its process and address."""
    path = write_problem(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "invlift", "serve", str(path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        lines = iter(process.stdout.readline, "")
        last = next(line for line in lines if "Serving" in line)
        yield process, ("127.0.0.1", int(re.search(r"http://127\.0\.0\.1:(\d+) ", last)[1]))
        process.kill()


def test_command_listens_on_this_machine_alone_until_it_is_ended(served):
    process, address = served
    assert umbridge.supported_models(f"http://127.0.0.1:{address[1]}") == ["forward", "posterior"]
    # 127.0.0.2 is this machine as well, but not the address that it listens on.
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", address[1]))
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def test_clients_that_leave_are_nothing_to_tell_and_idle_ones_hold_nobody_up(served):
    process, address = served
    head = b"POST /Evaluate " + HEADERS + length_of(OURS) + b"\r\n"
    no_linger = struct.pack("ii", 1, 0)
    for sent in (b"", b"no request\n\n", head[:20], head, head + OURS[:5], head + OURS):
        for _ in range(5):
            with socket.create_connection(address) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
                connection.sendall(sent)
    assert b"400" in exchange(address, b"no request\n\n")
    idle = [socket.create_connection(address) for _ in range(100)]
    half = socket.create_connection(address)
    half.sendall(head)
    assert post(address, "/Evaluate", OURS)[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert process.stderr.read() == ""
    for connection in (*idle, half):
        connection.close()


def test_without_the_server_the_package_to_install_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert call("serve", write_problem(tmp_path)) == 2
    assert "pip install 'invlift[serve]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "70000"], ["--port", "'70000'"]),
        (["--port", "x"], ["--port", "'x'"]),
        (["--host", "192.0.2.1"], ["--host 192.0.2.1", "choose another address"]),
        (["--host", "nowhere.invalid"], ["--host nowhere.invalid", "choose another address"]),
        (["--host", ""], ["--host", "127.0.0.1"]),
    ],
)
def test_addresses_that_cannot_be_are_told_in_a_line(tmp_path, capsys, options, words):
    assert call("serve", write_problem(tmp_path), *options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for word in words:
        assert word in error
