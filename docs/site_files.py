"""Which files of the repository the documentation's site is made of, for MkDocs."""

import json
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
SHOWN = (
    "README.md",
    "docs/**/*.md",
    "docs/CITATION.cff",
    "docs/images/*.png",
    "docs/notebooks/*.ipynb",
    "examples/**/README.md",
    "examples/*/*.png",
    "examples/*/*.py",
    "examples/*/*.csv",
    "examples/*/*.toml",
    "examples/*/*.mat",
    "examples/*/*.ohm",
    "meshes/README.md",
    "tests/benchmarks/measurements.md",
)


def on_config(config):
    """Put the pages of all examples into the navigation, by the names of their folders."""
    pages = next(entry["Examples"] for entry in config.nav if "Examples" in entry)
    for page in sorted(ROOT.glob("examples/*/README.md")):
        name = page.parent.name.replace("_", " ").capitalize()
        pages.append({name: str(page.relative_to(ROOT))})
    return config


def on_files(files: Files, config) -> Files:
    """Replace what is in ``docs_dir`` by all pages, at the paths that they have in the repository.

    So links between them, and to pictures, are the same on the site as in the repository.
    """
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    paths = sorted(path.relative_to(ROOT) for pattern in SHOWN for path in ROOT.glob(pattern))
    ours = [
        File(str(path), str(ROOT), config.site_dir, config.use_directory_urls) for path in paths
    ]
    notebooks = [
        File.generated(
            config, f"docs/notebooks/{path.stem}.md", content=page_of_notebook(path.read_text())
        )
        for path in sorted(ROOT.glob("docs/notebooks/*.ipynb"))
    ]
    return Files(theirs + ours + notebooks)


def page_of_notebook(text: str) -> str:
    """Return a notebook as Markdown, with what its cells have printed and drawn."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append("```text\n" + "".join(output["text"]).rstrip() + "\n```")
            elif picture := output["data"].get("image/png"):
                parts.append(f"![What this cell draws](data:image/png;base64,{picture.strip()})")
    return "\n\n".join(parts) + "\n"


def on_page_content(html: str, **_) -> str:
    """Show what docstrings refer to by its name, without Sphinx's roles."""
    return re.sub(r":(?:func|class|meth|mod|data|attr):<code>(?:~[\w.]*\.)?", "<code>", html)
