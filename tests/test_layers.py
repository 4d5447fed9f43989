"""Imports go down only, and each outside library has one home: read from the source itself."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1] / "invlift"
FOLDERS = {
    "app",
    "fem",
    "lift",
    "models",
    "noise",
    "posterior",
    "problems",
    "samplers",
    "tables",
    "unknowns",
}
#: What every folder may use: modules at the top level, and folders that know no other.
SHARED = {
    "chains",
    "keywords",
    "errors",
    "files",
    "moments",
    "programs",
    "projections",
    "standards",
    "targets",
    "units",
}
#: What else a folder may import: a name stands for what is in it as well.
ALLOWED = {
    "app": ("invlift",),
    "fem": ("invlift.models", "invlift.unknowns"),
    "lift": ("invlift.unknowns",),
    "models": ("invlift.lift.jacobians", "invlift.unknowns"),
    "noise": ("invlift.unknowns",),
    "posterior": (),
    "problems": ("invlift.lift", "invlift.models", "invlift.noise", "invlift.unknowns"),
    "samplers": (),
    "tables": ("invlift.fem", "invlift.noise", "invlift.unknowns"),
    "unknowns": (),
}
#: Outside libraries, and the folders that may import them.
HOMES = {
    "skfem": {"fem"},
    "blackjax": {"samplers"},
    "numpyro": {"problems", "unknowns"},
    "arviz": {"posterior"},
    "matplotlib": {"posterior"},
    "meshio": {"fem", "posterior"},
}


def module_name(path):
    """Dotted name of a module's file, packages without their __init__."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name, text, *, is_package=False):
    """Dotted names of everything a module imports, anywhere in it; relative ones resolved."""
    tree = ast.parse(text)
    found = set()
    for node in ast.walk(tree):
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


@cache
def imports_of_modules():
    """What each module of the library imports, by its name."""
    return {
        module_name(path): imports(
            module_name(path), path.read_text("utf-8"), is_package=path.name == "__init__.py"
        )
        for path in ROOT.rglob("*.py")
    }


def violations(name, imported):
    """What a module of this name imports that it must not."""
    parts = name.split(".")
    folder = parts[1] if len(parts) > 1 and parts[1] in FOLDERS else None
    found = []
    for each in sorted(imported):
        first, *rest = each.split(".")
        is_foreign = first in HOMES and folder not in HOMES[first]
        if folder and first == "invlift":
            is_below = rest and rest[0] in {folder} | SHARED
            is_foreign = not (is_below or each.startswith(ALLOWED[folder]))
        if is_foreign or (folder and each == "(computed)"):
            found.append(f"{name} imports {each}")
    return found


def test_imports_stay_within_the_layers():
    modules = imports_of_modules().items()
    assert [found for module in modules for found in violations(*module)] == []


def test_every_layer_and_library_is_looked_at():
    """The scan sees all folders, and each library in each of its homes."""
    used, folders = {library: set() for library in HOMES}, set()
    for name, imported in imports_of_modules().items():
        folder = name.split(".")[1:2]
        folders |= set(folder)
        for each in imported:
            if (library := each.split(".")[0]) in used:
                used[library] |= set(folder)
    assert folders >= FOLDERS
    assert used == HOMES


FORBIDDEN = [
    ("invlift.samplers.chains.chain", "from invlift.fem.mesh.mesh import Mesh"),
    ("invlift.samplers.chains.chain", "import invlift.problems"),
    ("invlift.samplers.chains.chain", "from ...fem import mesh"),
    ("invlift.samplers.chains.chain", "from ... import problems"),
    ("invlift.problems.problem", "def f():\n    from invlift.fem import equation"),
    ("invlift.problems.problem", "from invlift import samplers"),
    ("invlift.fem.equations.equation", "from invlift.noise import Noise"),
    ("invlift.posterior.figures.style", "if True:\n    import invlift.samplers.chains.chain as c"),
    ("invlift.fem.mesh.mesh", "from invlift.tables.table import Table"),
    ("invlift.noise.base", "from invlift.tables.noise import NoiseTable"),
    ("invlift.tables.sensors", "from invlift.app.problem import sections"),
    ("invlift.fem.mesh.mesh", "from invlift.app.problem.problem_file import read_problem"),
    ("invlift.posterior.output.files", "import invlift"),
    ("invlift.lift.jacobians.diagonal", "import skfem.helpers"),
    ("invlift.app.checks", "from skfem import Basis"),
    ("invlift.app.runs.sampling", "from blackjax.mcmc import nuts"),
    ("invlift.app.cli", "import matplotlib.pyplot as plt"),
    ("invlift.samplers.chains.parallel", "import importlib\nm = importlib.import_module('skfem')"),
    ("invlift.samplers.chains.parallel", "m = __import__(name)"),
]
ALLOWED_ONES = [
    ("invlift.samplers.chains.parallel", "from invlift.samplers.chains import chain"),
    ("invlift.samplers.chains.parallel", "import blackjax"),
    (
        "invlift.samplers.chains.parallel",
        "from .chain import Plan\nfrom ...errors import Error",
    ),
    (
        "invlift.fem.equations.equation",
        "from invlift.errors import InputError\nimport skfem, meshio",
    ),
    ("invlift.posterior.output.files", "import meshio, arviz\nfrom matplotlib import pyplot"),
    (
        "invlift.app.problem.build",
        "from invlift.fem import mesh\nfrom invlift import samplers, posterior",
    ),
    ("invlift.lift.jacobians.diagonal", "'''import skfem'''\n# import blackjax"),
]


def test_forbidden_imports_are_seen_and_others_pass():
    """Negative controls."""
    for name, text in FORBIDDEN:
        assert len(violations(name, imports(name, text))) == 1, (name, text)
    for name, text in ALLOWED_ONES:
        assert violations(name, imports(name, text)) == [], (name, text)


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


def graph_of(texts):
    """Which modules of the library import which, {name: names}: within functions, too, and where
    only types are checked.
    """
    graph = {name: set() for name in texts}
    for name, text in texts.items():
        for imported in imports(name, text):
            target = imported if imported in texts else imported.rpartition(".")[0]
            if target in texts and target != name:
                graph[name].add(target)
    return graph


def test_no_module_imports_itself_in_a_circle():
    graph = graph_of({module_name(path): path.read_text("utf-8") for path in ROOT.rglob("*.py")})
    assert sum(map(len, graph.values())) > len(graph)
    assert cycle_in(graph) == []


UP = "from invlift.a import A"
HIDDEN = [
    UP,
    f"if TYPE_CHECKING:\n    {UP}",
    f"def f():\n    {UP}",
    f"class B:\n    def f(self):\n        {UP}",
]


def test_circles_are_seen_wherever_the_import_stands():
    """Negative control."""
    for text in HIDDEN:
        texts = {"invlift.a": "from invlift.b import B", "invlift.b": text}
        assert cycle_in(graph_of(texts)) == ["invlift.a", "invlift.b", "invlift.a"]
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_what_all_may_use_knows_nothing_of_them():
    found = {
        name: {each.split(".")[1] for each in imported if each.startswith("invlift.")} - SHARED
        for name, imported in imports_of_modules().items()
        if name.split(".")[1:2] and name.split(".")[1] in SHARED
    }
    assert len(found) > len(SHARED)
    assert {name: imported for name, imported in found.items() if imported} == {}


#: What drawing and statistics of results need: a second of import each.
FOR_RESULTS = {"matplotlib", "xarray", "arviz", "scipy.stats"}


def imported_with(name):
    """Outside modules that are imported when a module of the library is, and by those it imports:
    what stands within functions, or where only types are checked, is left out.
    """
    seen, outside, left = set(), set(), [name]
    while left:
        module = left.pop()
        path = ROOT.parent / Path(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module in seen or not file.is_file():
            continue
        seen.add(module)
        tree = ast.parse(file.read_text("utf-8"))
        plain = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
        text = "\n".join(map(ast.unparse, plain))
        for each in imports(module, text, is_package=file.name == "__init__.py"):
            parts = each.split(".")
            above = [".".join(parts[:number]) for number in range(1, len(parts) + 1)]
            left += [one for one in above if one.startswith("invlift.")]
            outside |= {one for one in above if parts[0] != "invlift"}
    return outside


def test_commands_wait_for_drawing_and_statistics_only_when_they_need_them():
    commands = [f"invlift.app.commands.{name}" for name in ("check", "run")]
    commands.append("invlift.app.runs.sampling")
    found = {name: imported_with(name) & FOR_RESULTS for name in commands}
    assert {name: each for name, each in found.items() if each} == {}
    # negative control
    assert imported_with("invlift.posterior.output.report") >= {"matplotlib", "xarray"}
