"""Imports go down only, and each outside library has one home: read from the source itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "invlift"
FOLDERS = {"app", "fem", "inverse", "samplers", "posterior"}
#: What every folder may use: modules at the top level, and folders that know no other.
SHARED = {"errors", "files", "moments", "programs", "standards", "targets"}
#: What else a folder may import: of another folder its base classes alone.
ALLOWED = {
    "app": ("invlift",),
    "fem": (
        "invlift.inverse.models.base",
        "invlift.inverse.models.joined",
        "invlift.inverse.priors",
        "invlift.inverse.distributions",
    ),
    "inverse": (),
    "samplers": (),
    "posterior": (),
}
#: What a person calls on a problem, ``problem.posterior(run)``, which knows nothing of posteriors.
EXCEPTIONS = {
    ("invlift.inverse.problem_base", "invlift.app.results.build_posterior"),
    ("invlift.inverse.problem_base", "invlift.posterior.posterior.Posterior"),
    ("invlift.inverse.problem_base", "invlift.samplers.chains.results.Run"),
}
#: Outside libraries, and the folders that may import them.
HOMES = {
    "skfem": {"fem"},
    "blackjax": {"samplers"},
    "numpyro": {"inverse"},
    "arviz": {"posterior"},
    "matplotlib": {"posterior"},
    "meshio": {"fem", "posterior"},
}
MODULES = sorted(ROOT.rglob("*.py"))


def module_name(path):
    """Dotted name of a module's file, packages without their __init__."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name, text, *, is_package=False, at_top_level_only=False):
    """Dotted names of everything a module imports, anywhere in it; relative ones resolved."""
    tree = ast.parse(text)
    found = set()
    for node in tree.body if at_top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                keep = len(parts) - node.level + is_package
                base = ".".join([*parts[:keep], *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in ("__import__", "import_module"):
                literal = node.args and isinstance(node.args[0], ast.Constant)
                found.add(node.args[0].value if literal else "(computed)")
    return found


def violations(name, text, *, is_package=False):
    """What a module of this name and content imports that it must not."""
    parts = name.split(".")
    folder = parts[1] if len(parts) > 1 and parts[1] in FOLDERS else None
    found = []
    for imported in sorted(imports(name, text, is_package=is_package)):
        first, *rest = imported.split(".")
        is_foreign = first in HOMES and folder not in HOMES[first]
        if folder and first == "invlift":
            is_below = rest and rest[0] in {folder} | SHARED
            is_foreign = not (is_below or imported.startswith(ALLOWED[folder]))
        is_foreign = is_foreign and (name, imported) not in EXCEPTIONS
        if is_foreign or (folder and imported == "(computed)"):
            found.append(f"{name} imports {imported}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_stay_within_the_layers(path):
    is_package = path.name == "__init__.py"
    assert violations(module_name(path), path.read_text("utf-8"), is_package=is_package) == []


def test_every_layer_and_library_is_looked_at():
    """The scan sees the five folders, and each library in each of its homes."""
    names = {module_name(path).split(".")[1] for path in MODULES if path.parent != ROOT}
    assert names >= FOLDERS
    used = {library: set() for library in HOMES}
    for path in MODULES:
        name = module_name(path)
        for imported in imports(name, path.read_text("utf-8")):
            if (library := imported.split(".")[0]) in used:
                used[library].add(name.split(".")[1])
    assert used == HOMES


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("invlift.samplers.chains.chain", "from invlift.fem.mesh.mesh import Mesh"),
        ("invlift.samplers.chains.chain", "import invlift.inverse"),
        ("invlift.samplers.chains.chain", "from ...fem import mesh"),
        ("invlift.samplers.chains.chain", "from ... import inverse"),
        ("invlift.inverse.problem", "def f():\n    from invlift.fem import poisson"),
        ("invlift.inverse.problem", "from invlift import samplers"),
        ("invlift.fem.poisson", "from invlift.inverse.noise import Noise"),
        ("invlift.fem.poisson", "from invlift.posterior import files"),
        ("invlift.posterior.plots", "from invlift.fem.mesh.mesh import Mesh"),
        ("invlift.posterior.plots", "if True:\n    import invlift.samplers.chains.chain as c"),
        ("invlift.fem.mesh.mesh", "from invlift.app.problem_file import read_problem"),
        ("invlift.inverse.noise", "from invlift.app.build import build_problem"),
        ("invlift.posterior.files", "import invlift"),
        ("invlift.samplers.chains.parallel", "from invlift import sampling"),
        ("invlift.inverse.jacobians.diagonal", "import skfem.helpers"),
        ("invlift.app.checks", "from skfem import Basis"),
        ("invlift.inverse.jacobians.diagonal", "import blackjax"),
        ("invlift.app.sampling", "from blackjax.mcmc import nuts"),
        ("invlift.samplers.chains.parallel", "import arviz as az"),
        ("invlift.app.cli", "import matplotlib.pyplot as plt"),
        ("invlift.app.build", "import meshio"),
        (
            "invlift.samplers.chains.parallel",
            "import importlib\nm = importlib.import_module('skfem')",
        ),
        ("invlift.samplers.chains.parallel", "m = __import__(name)"),
    ],
)
def test_forbidden_imports_are_seen(name, text):
    assert len(violations(name, text)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "invlift.samplers.chains.parallel",
            "from invlift.samplers.chains import chain\nimport blackjax",
        ),
        (
            "invlift.samplers.chains.parallel",
            "from .chain import Plan\nfrom ...errors import InputError",
        ),
        ("invlift.fem.poisson", "from invlift.errors import InputError\nimport skfem, meshio"),
        ("invlift.posterior.files", "import meshio, arviz\nfrom matplotlib import pyplot"),
        (
            "invlift.app.build",
            "from invlift.fem import mesh\nfrom invlift import samplers, posterior",
        ),
        ("invlift.inverse.jacobians.diagonal", "'''import skfem'''\n# import blackjax"),
    ],
)
def test_allowed_imports_pass(name, text):
    assert violations(name, text) == []


def cycle_in(graph):
    """One cycle of a directed graph {name: names}, or an empty list."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for following in sorted(graph.get(name, ())):
            if found := visit(following):
                return found
        done.add(path.pop())
        return []

    return next((found for name in sorted(graph) if (found := visit(name))), [])


def test_no_module_imports_itself_in_a_circle():
    names = {module_name(path) for path in MODULES}
    graph = {}
    for path in MODULES:
        name = module_name(path)
        graph[name] = set()
        for imported in imports(name, path.read_text("utf-8"), at_top_level_only=True):
            target = imported if imported in names else imported.rpartition(".")[0]
            if target in names:
                graph[name].add(target)
    assert sum(map(len, graph.values())) > len(names)
    assert cycle_in(graph) == []
    # negative control
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if p.relative_to(ROOT).parts[0].removesuffix(".py") in SHARED],
    ids=module_name,
)
def test_what_all_may_use_knows_nothing_of_them(path):
    name = module_name(path)
    found = imports(name, path.read_text("utf-8"))
    assert {each.split(".")[1] for each in found if each.startswith("invlift.")} <= SHARED
