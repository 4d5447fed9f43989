"""Models behind HTTP: UM-Bridge's own client against the values computed here."""

import http.client
import json
import re
import signal
import socket
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import umbridge
from aiohttp import web
from command_line import assert_one_line, call, finish, start
from jax.scipy.stats import norm
from problem_files import write_problem

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.um_bridge import build_application, listen, served_models

NOISE = {"noise.sigma": {"distribution": "lognormal", "location": -1.0, "scale": 1.0}}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = write_problem(tmp_path_factory.mktemp("serve"), NOISE)
    return build_problem(read_problem(path))


@pytest.fixture(scope="module")
def address(problem):
    listener = listen("127.0.0.1", 0)
    app = build_application(served_models(problem))
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
        # Of the definition alone, so that a client can say it: sigma = exp(-1 + zeta).
        def fn(theta):
            residual = problem.observed - problem.predict(theta)
            log_prior = norm.logpdf(theta).sum()
            log_likelihood = norm.logpdf(residual, scale=jnp.exp(theta[0] - 1.0)).sum()
            constant = 0.5 * theta.size * np.log(2.0 * np.pi)
            return (log_prior + constant + log_likelihood)[None]

        sizes = 1, problem.num_unknowns
    client = umbridge.HTTPModel(f"http://{address[0]}:{address[1]}", request.param)
    return client, jax.jit(fn), *sizes


def test_values_are_those_computed_here(case):
    client, fn, num_outputs, num_inputs = case
    assert client.get_input_sizes() == [num_inputs]
    assert client.get_output_sizes() == [num_outputs]
    for name in ("evaluate", "gradient", "apply_jacobian", "apply_hessian"):
        assert getattr(client, f"supports_{name}")()
    x = 0.5 * np.random.default_rng(0).normal(size=num_inputs)
    (found,) = client([x.tolist()])
    np.testing.assert_allclose(found, fn(x), rtol=1e-12)
    # Negative control: another place.
    assert not np.allclose(client([(x + 0.1).tolist()])[0], fn(x))


def test_derivatives(case):
    """Against finite differences, and the two products with the Jacobian against each other."""
    client, fn, num_outputs, num_inputs = case
    rng = np.random.default_rng(0)
    x, v, other = rng.normal(size=(3, num_inputs)) * np.array([[0.5], [1.0], [1.0]])
    s = rng.normal(size=num_outputs)
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
BAD = (  # a body, or what is changed in a good one; beginnings of the error's type and its message
    ("/Evaluate", b"{", "InvalidInput", ""),
    ("/Evaluate", {"name": "x"}, "InvalidInput", ""),
    ("/Evaluate", {"input": [[0.0] * 15]}, "InvalidInput", "found 15"),
    ("/Evaluate", {"input": [[0.0] * 16] * 2}, "InvalidInput", "one vector, found 2"),
    ("/Evaluate", {"input": None}, "InvalidInput", "one vector, found no list"),
    ("/Evaluate", {"input": [[None] * 16]}, "InvalidInput", "finite numbers"),
    ("/Gradient", {}, "InvalidInput", ""),
    ("/Evaluate", {"input": [[1e6] * 16]}, "ModelError", ""),
)


def test_bad_requests_and_those_of_web_pages_have_an_answer_and_the_server_goes_on(address):
    for path, body, kind, words in BAD:
        body = body if isinstance(body, bytes) else json.dumps(GOOD | body)
        status, answer = post(address, path, body)
        assert status >= 400, body
        assert answer["error"]["type"].startswith(kind), body
        assert answer["error"]["message"], body
        assert words in answer["error"]["message"], body
    assert post(address, "/Evaluate", json.dumps(GOOD))[0] == 200
    status, answer = post(address, "/Evaluate", json.dumps(GOOD), Origin="http://localhost:3000")
    assert status == 400
    assert "web pages are refused" in answer["error"]["message"]


def test_command_listens_on_this_machine_alone_until_it_is_ended(tmp_path):
    process = start("serve", write_problem(tmp_path), "--port", "0")
    last = next(line for line in process.stdout if "Serving" in line)
    port = int(re.search(r"http://127\.0\.0\.1:(\d+) ", last)[1])
    assert umbridge.supported_models(f"http://127.0.0.1:{port}") == ["forward", "posterior"]
    # 127.0.0.2 is this machine as well, but not the address that it listens on.
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", port))
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0


def test_without_the_server_or_at_an_address_that_cannot_be_a_line_tells(
    tmp_path, capsys, monkeypatch
):
    path = write_problem(tmp_path)
    for options, words in (
        (["--port", "70000"], ["--port", "'70000'"]),
        (["--host", "nowhere.invalid"], ["--host nowhere.invalid", "choose another address"]),
    ):
        assert call("serve", path, *options) == 2
        assert_one_line(capsys, words)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert call("serve", path) == 2
    assert "pip install 'invlift[serve]'" in capsys.readouterr().err
