"""The site of docs/: it builds strictly, its links hold, it loads nothing from elsewhere, the reference has every
public name, and the notebook prints what it printed. BITMMA_UPDATE_DOCS=1 writes the notebook's outputs anew."""

from __future__ import annotations

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest

import bitmma
from conftest import ROOT

for _package in ("mkdocs", "material", "mkdocstrings", "nbclient", "ipykernel", "matplotlib"):
    pytest.importorskip(_package, reason=f"the site is not tested: {_package} is missing, pip install '.[docs]'")

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# What no page, script or output may name: this machine, and hosts that hand out packages, scripts and fonts.
FOREIGN = [
    str(ROOT),
    str(pathlib.Path.home()) + "/",
    "/site-packages/",
    "/tmp/",
    "unpkg.com",
    "jsdelivr",
    "cdnjs",
    "pypi.org",
    "files.pythonhosted",
    "googleapis.com",
    "gstatic.com",
]


class Page(html.parser.HTMLParser):
    """The anchors of a page, where it leads, and what it loads."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = path.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag != "a":
            self.loads += [values[name] for name in ("src", "href", "data", "srcset", "poster") if values.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [ROOT / "tools" / "docs", "--site-dir", out],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    by_address = {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
    by_address.pop("404.html")  # a server shows it under any address; it names its scripts from the root
    return by_address


def test_links_and_anchors(site, pages):
    wrong, checked = [], 0
    for name, page in pages.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme:
                continue
            here = (
                name
                if not parts.path
                else os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(parts.path)))
            )
            checked += 1
            if not (site / here).is_file():
                wrong.append(f"{name}: {link}")
            elif here == "playground/index.html" and parts.fragment:  # a tab, with its fields: docs/playground/tabs.js
                if f"id: '{parts.fragment.split('?')[0]}'," not in (site / "playground/tabs.js").read_text():
                    wrong.append(f"{name}: {link}: no such tab")
            elif parts.fragment and here in pages and urllib.parse.unquote(parts.fragment) not in pages[here].anchors:
                wrong.append(f"{name}: {link}: no such anchor")
    assert not wrong, "\n".join(wrong)
    assert checked > 2000


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for name, page in pages.items():
        assert not [url for url in page.loads if urllib.parse.urlsplit(url).scheme not in ("", "data")], name
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css", ".js", ".json", ".svg", ".xml", ".ipynb"):
            text = path.read_text()
            assert not [word for word in FOREIGN if word in text], path.relative_to(site)
            if path.suffix == ".css":
                assert not re.search(r"(?:@import|url\()[\s\"']*(?:https?:)?//", text), path.relative_to(site)


def test_no_list_or_table_is_left_as_text(pages):
    """Python-Markdown wants a blank line before a list or a table; GitHub does not."""
    for name, page in pages.items():
        left = re.search(r"<p>[^<]*(?:<(?!/p)[^<]*)*?\n(?:[-*] |\d+\. |\|.*\||```|#+ )", page.text)
        assert not left, f"{name}: {left[0][-200:]}"


# What newcomers type, and the page that answers it.
SEARCHES = {
    "torch": "torch",
    "swizzle": "strides",
    "tmem": "tensor_memory",
    "exp2": "special_functions",
    "pytest": "programs",
    "determinism": "batch_size",
    "batch invariant": "batch_size",
    "deepgemm": "python",
    "LBO": "strides",
    "nvfp4 scale layout": "nvfp4",
    "triton": "hosts",
    "install": "install",
    "softmax": "operators",
    "flash attention": "operators",
    "why do H100 and A100 differ": "gpus",
    "mma-sim": "compared_with",
    "mxfp8": "tensor_memory",
}


def test_search_finds_what_newcomers_look_for(site):
    """The theme's own search, in node: the first page that it shows."""
    node = shutil.which("node")
    if not node:
        pytest.skip("NOT checked: node is not installed")
    script = pathlib.Path(__file__).with_name("site_search.js")
    done = subprocess.run([node, script, site, *SEARCHES], capture_output=True, text=True, check=True)
    pages = {query: found[:1] for query, found in json.loads(done.stdout).items()}
    assert pages == {query: [f"{page}.html"] for query, page in SEARCHES.items()}


def test_long_tables_are_on_the_site(pages):
    """Each table that tests write is in one page of the site, and the pages of the repository only link to it."""
    sources = {path: path.read_text() for path in (ROOT / "docs").rglob("*.md")}
    for table in sorted((ROOT / "tools" / "site" / "tables").glob("*.md")):
        users = [path for path, text in sources.items() if f"tools/site/tables/{table.name})" in text]
        assert len(users) == 1, table.name
        page = pages[users[0].relative_to(ROOT / "docs").with_suffix(".html").as_posix()]
        rows = [line for line in table.read_text().splitlines() if line.startswith(("| ", "## "))]
        assert page.text.count("<tr>") + page.text.count("<h2") >= len(rows)
        assert "tools/site/tables" not in page.text


def test_every_page_of_docs_is_in_the_navigation(pages):
    reached = set(pages["index.html"].links)
    missing = [
        path.name for path in (ROOT / "docs").glob("*.md") if path.stem + ".html" not in reached | {"index.html"}
    ]
    assert not missing
    assert all(f"notebooks/{path.stem}.html" in reached for path in NOTEBOOKS)


def test_the_reference_has_every_public_name_of_python(pages):
    anchors = set().union(*(page.anchors for name, page in pages.items() if name.startswith("reference/")))
    names = {
        f"bitmma.{name}"
        for name in bitmma.__all__
        if name not in ("datasets", "layers", "layout", "math", "operators", "plot", "testing")
    }
    modules = (
        bitmma.datasets,
        bitmma.layers,
        bitmma.layout,
        bitmma.math,
        bitmma.operators,
        bitmma.plot,
        bitmma.testing,
    )
    for module in modules:
        names |= {f"{module.__name__}.{name}" for name in module.__all__}
    assert names <= anchors, sorted(names - anchors)
    package = pathlib.Path(bitmma.__file__).parent
    for module in [*package.glob("[!_]*.py"), *package.glob("adapters/[!_]*.py")]:
        prefix = ".".join(("bitmma", *module.relative_to(package).with_suffix("").parts)) + "."
        assert any(anchor.startswith(prefix) for anchor in anchors), module
    text = "".join(page.text for name, page in pages.items() if name.startswith("reference/python"))
    # Of the compiled classes.
    assert "Columns of A that are stored" in text and "with_immediate" in text and "How a library adds up K" in text


def _code(path: pathlib.Path) -> str:
    return re.sub(r"//.*", "", path.read_text())


def test_the_reference_has_every_function_of_c(pages):
    functions = set(re.findall(r"\b(bitmma_\w+)\(", _code(ROOT / "include" / "bitmma.h")))
    assert len(functions) > 40
    anchors = set().union(*(page.anchors for name, page in pages.items() if name.startswith("reference/c/")))
    assert functions <= anchors, sorted(functions - anchors)


def test_the_reference_has_every_header_and_type_of_cpp(pages):
    for header in sorted((ROOT / "include" / "bitmma").rglob("*.hpp")):
        relative = header.relative_to(ROOT / "include" / "bitmma")
        page = pages[f"reference/cpp/{relative.with_suffix('.html').as_posix()}"]
        types = re.findall(r"^(?:struct|class|enum class) (?:\[\[\w+\]\] )?(\w+)", _code(header), re.MULTILINE)
        assert f"bitmma/{relative.as_posix()}" in page.text
        assert not [name for name in types if f"<code>{name}</code>" not in page.text], header


def _printed(cell) -> list[str]:
    """What a cell printed, and the text of what it showed. Pixels are left out: their data is printed too."""
    printed = []
    for output in cell.get("outputs", []):
        kinds = output.get("data", {})
        printed.append("".join(output.get("text") or kinds.get("image/svg+xml") or kinds.get("text/plain") or ""))
        printed += [kind for kind in kinds if kind.startswith("image/")]
    return printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_prints_what_it_printed(path, monkeypatch, tmp_path):
    """In an empty folder: it runs on any machine with bitmma."""
    import nbclient
    import nbformat

    assert path.stat().st_size < 300_000
    assert not [word for word in FOREIGN if word in path.read_text()]
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(bitmma.__file__).parents[1]))
    committed = json.loads(path.read_text())["cells"]
    again = nbformat.read(path, as_version=4)
    for cell in again.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(
        again,
        timeout=60,
        coalesce_streams=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    if os.environ.get("BITMMA_UPDATE_DOCS"):
        for cell in again.cells:
            cell.metadata.pop("execution", None)
        again.metadata["language_info"] = {"name": "python"}
        nbformat.write(again, path)
        return
    for before, after in zip(committed, again.cells, strict=True):
        assert _printed(after) == _printed(before), "".join(before["source"])
    pictures = {kind for cell in again.cells for kind in _printed(cell) if kind.startswith("image/")}
    assert path.stem != "one_matmul" or pictures >= {"image/png", "image/svg+xml"}
