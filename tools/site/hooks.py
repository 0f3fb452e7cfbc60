"""Extends mkdocs for this site.

- README.md, and other files of the repository that a page links to, become pages below `repository/`.
- A line `[Table: ...](../tools/site/tables/NAME.md)` of a page becomes that table.
- docs/notebooks/*.ipynb become pages with their recorded outputs; the build executes nothing.
- The headers of include/ become the reference of C and C++.
- docs/playground gets its program from build/playground.

The build makes generated pages in memory and writes them only into the site.
"""

from __future__ import annotations

import base64
import json
import pathlib
import posixpath
import re
import shutil
import sys

from mkdocs.structure.files import File, Files

_here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_here))
import headers  # noqa: E402

ROOT = _here.parents[1]
# Search ranks the reference below the pages that explain: "swizzle" leads to strides.md, not to swizzle.hpp.
_low_rank = "---\nsearch: {boost: 0.05}\n---\n"
_link = re.compile(r"(\]\()([^()#\s:]+)((?:#[^()\s]*)?\))")
_languages = {".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".json": "json", ".cmake": "cmake"}


# ---------------------------------------------------------------------------------------------------------------------
# Links that leave docs/


def _page_of(path: str) -> str:
    """The page of the site that shows a file of the repository, with its anchor on that page."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")
    if path == "include/bitmma.h":
        return "reference/c.md"
    if path.startswith("include/bitmma/"):
        return f"reference/cpp/{path.removeprefix('include/bitmma/').removesuffix('.hpp')}.md"
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


_table = re.compile(r"^\[Table: [^\]]*\]\((?:\.\./)+(tools/site/tables/\w+\.md)\)$", re.MULTILINE)


def _evidence_second(table: str) -> str:
    """The table with its column "evidence" after the first one, where a desktop shows it without scrolling."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    names = [name.strip() for name in rows[0]] if table.startswith("|") else []
    if "evidence" not in names:
        return table
    place = names.index("evidence")
    return "\n".join(f"|{'|'.join([row[0], row[place], *row[1:place], *row[place + 1 :]])}|" for row in rows)


def _with_tables(text: str) -> str:
    """The text of a page with the long tables that tests generate. The pages of the repository only link to them."""
    return _table.sub(lambda match: _evidence_second((ROOT / match[1]).read_text().rstrip()), text)


_picture = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)" alt="([^"]*)">\s*</picture>')


def _with_pictures(text: str) -> str:
    """A picture in two colour schemes follows the reader's system on GitHub, and the switch of the theme here."""
    return _picture.sub(r"![\3](\2#only-light)\n![\3](\1#only-dark)", text)


def _linked(path: str, text: str) -> dict[str, str]:
    """Maps each link of a file to the file of the repository that it names."""
    found = {}
    for match in _link.finditer(_with_tables(text)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))
        if (ROOT / target).is_file():
            found[match[2]] = target
    return found


def _relinked(path: str, text: str) -> str:
    """The text of a file of the repository, with links changed for the site."""
    files = _linked(path, text)
    here = posixpath.dirname(_page_of(path))

    def replaced(match: re.Match[str]) -> str:
        if match[2] not in files:
            return match[0]
        page, _, anchor = _page_of(files[match[2]]).partition("#")
        end = f"#{anchor})" if anchor and match[3] == ")" else match[3]
        return match[1] + posixpath.relpath(page, here or ".") + end

    return _link.sub(replaced, text)


def _source_page(path: str, text: str) -> str:
    language = "bash" if text.startswith("#!") else _languages.get(posixpath.splitext(path)[1], "text")
    return (
        "---\nsearch: {exclude: true}\n---\n"
        f"# {posixpath.basename(path)}\n\n`{path}` of the repository.\n\n~~~~{language}\n{text}\n~~~~\n"
    )


def _repository_page(path: str, text: str) -> str:
    # Without blank lines around it, Python-Markdown puts a block of code inside the paragraph.
    text = re.sub(r"^```.*?^```$", r"\n\g<0>\n", _with_pictures(text), flags=re.MULTILINE | re.DOTALL)
    return _low_rank + _relinked(path, text)


def _repository_pages() -> dict[str, str]:
    """Pages of files outside docs/ that pages link to, and that those link to."""
    waiting = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
    seen, pages = set(waiting), {}
    while waiting:
        path = waiting.pop()
        text = (ROOT / path).read_text()
        markdown = path.endswith(".md")
        if _page_of(path).startswith("repository/"):
            pages[_page_of(path)] = _repository_page(path, text) if markdown else _source_page(path, text)
        if markdown:
            new = set(_linked(path, text).values()) - seen
            seen |= new
            waiting += sorted(new)
    return pages


# ---------------------------------------------------------------------------------------------------------------------
# Notebooks


def _notebook_pages(path: pathlib.Path) -> dict[str, str | bytes]:
    """The page of a notebook, and its pictures."""
    out: list[str] = []
    files: dict[str, str | bytes] = {}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out.append(_relinked(f"docs/notebooks/{path.name}", source))
            continue
        out.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            picture = next((kind for kind in ("image/svg+xml", "image/png") if kind in data), None)
            if picture:
                body = "".join(data[picture])
                name = f"{path.stem}_{len(files) + 1}.{'svg' if 'svg' in picture else 'png'}"
                files[f"notebooks/{name}"] = body if "svg" in picture else base64.b64decode(body)
                about = output.get("metadata", {}).get("alt") or cell.get("metadata", {}).get("alt", "")
                out.append(f"![{about}]({name})")
            else:
                out.append(f"``` {{ .text .no-copy .output }}\n{''.join(data['text/plain']).rstrip()}\n```")
    out.append(f"[This notebook]({path.name}) runs on any machine with bitmma; it needs no GPU.")
    files[f"notebooks/{path.stem}.md"] = "\n\n".join(out) + "\n"
    return files


# ---------------------------------------------------------------------------------------------------------------------
# Headers


def _layers() -> dict[str, str]:
    """Maps each folder of headers to its contents, in the order and words of docs/design.md."""
    folders = {path.name for path in (ROOT / "include/bitmma").iterdir() if path.is_dir()}
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", (ROOT / "docs/design.md").read_text(), re.MULTILINE)
    described = {name: words for name, words in rows if name in folders}
    return described | dict.fromkeys(sorted(folders - set(described)), "")


def _headers_of(layer: str) -> list[pathlib.Path]:
    return sorted((ROOT / "include/bitmma" / layer).glob("*.hpp"))


def _c_sections() -> dict[str, str]:
    """Title of each section of bitmma.h -> its page."""
    titles = dict.fromkeys(item.section for item in headers.items_of((ROOT / "include/bitmma.h").read_text()))
    return {
        title[:1].upper() + title[1:]: "reference/c/" + re.sub(r"\W+", "_", title) + ".md" for title in titles if title
    }


def _header_pages() -> dict[str, str]:
    def opening(path: pathlib.Path) -> str:
        return headers.prose(headers.opening_comment(path.read_text())) + "\n\n"

    def first_sentence(path: pathlib.Path) -> str:
        text = " ".join(headers.opening_comment(path.read_text())).split(". ")[0].split("  ")[0]
        return text.replace("|", "\\|").replace("<", "&lt;").rstrip(".:")

    pages = {}
    one = ROOT / "include/bitmma/bitmma.hpp"
    out = [
        _low_rank + "# C++: bitmma/bitmma.hpp\n",
        opening(one),
        headers.markdown_of("bitmma/bitmma.hpp", one.read_text(), 2),
        "\n## All headers\n",
        "A folder includes only itself and those above it.",
    ]
    for layer, words in _layers().items():
        out.append(f"\n### {layer}\n\n{words[:1].upper()}{words[1:]}\n\n| header | holds |\n|---|---|")
        for path in _headers_of(layer):
            page = f"{layer}/{path.stem}.md"
            out.append(f"| [{path.name}]({page}) | {first_sentence(path)} |")
            pages[f"reference/cpp/{page}"] = (
                f"{_low_rank}# bitmma/{layer}/{path.name}\n\n"
                + opening(path)
                + headers.markdown_of(f"bitmma/{layer}/{path.name}", path.read_text(), 2)
            )
    pages["reference/cpp/bitmma.md"] = "\n".join(out)
    c = (ROOT / "include/bitmma.h").read_text()
    pages["reference/c.md"] = "\n".join(
        [
            _low_rank + "# C: bitmma.h\n",
            opening(ROOT / "include/bitmma.h"),
            "\n## All of it\n",
            *(f"- [{title}]({page.removeprefix('reference/')})" for title, page in _c_sections().items()),
        ]
    )
    for title, page in _c_sections().items():
        pages[page] = _low_rank + headers.markdown_of("bitmma.h", c, 1, title)
    return pages


# ---------------------------------------------------------------------------------------------------------------------
# What mkdocs calls


def _places(entries: list) -> list[str]:
    """The pages that a part of the navigation names."""
    pages = []
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        pages += _places(value) if isinstance(value, list) else [value]
    return pages


def on_config(config):
    """The version at the foot of each page. In the navigation, `new pages`, `headers` and `sections of bitmma.h`: pages
    of docs/ that the navigation does not list, and those of C++ and C."""
    named = _places(config.nav)
    new = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    layers = [
        {"All headers": "reference/cpp/bitmma.md"},
        *(
            {layer: [{path.name: f"reference/cpp/{layer}/{path.stem}.md"} for path in _headers_of(layer)]}
            for layer in _layers()
        ),
    ]
    c_pages = [{"bitmma.h": "reference/c.md"}, *({title: page} for title, page in _c_sections().items())]

    def filled(entries: list) -> list:
        out = []
        for entry in entries:
            if isinstance(entry, dict):
                out.append(
                    {title: filled(value) if isinstance(value, list) else value for title, value in entry.items()}
                )
            else:
                out += {"new pages": new, "headers": layers, "sections of bitmma.h": c_pages}.get(entry, [entry])
        return out

    config.nav = filled(config.nav)
    version = re.search(r"project\(bitmma VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    config.copyright = f"bitmma {version}, MIT license"
    return config


def on_files(files: Files, *, config) -> Files:
    made: dict[str, str | bytes] = {**_repository_pages(), **_header_pages()}
    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        made |= _notebook_pages(path)
    for name in ("site.css", "iframe-worker.js"):
        made[f"assets/{name}"] = (_here / name).read_text()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def _names_without_a_place() -> str:
    """The `:::` lines for public Python names that no page names, so that the site never lacks a new name."""
    markdown = "".join(path.read_text() for path in sorted((ROOT / "docs/reference").glob("*.md")))
    text = (ROOT / "python/bitmma/__init__.py").read_text()
    names = text[text.index("__all__") :]
    public = re.findall(r'"(\w+)"', names[: names.index("\n]")])
    placed = set(re.findall(r"^::: bitmma\.([\w.]+)", markdown, re.MULTILINE))
    submodules = {path.stem for path in (ROOT / "python/bitmma").iterdir() if not path.name.startswith("_")}
    return "\n\n".join(f"::: bitmma.{name}" for name in public if name not in placed | submodules)


# Constants, and what has no docstring, are the adapter's own.
_adapter = """::: bitmma.adapters.{}
    options: {{heading_level: 3, show_if_no_docstring: false, show_root_heading: false, show_root_toc_entry: false,
               filters: ["!^_", "!^[A-Z_0-9]+$"]}}
"""


def _code_in_tables(markdown: str) -> str:
    """GitHub wants `|` of code in a table written as `\\|`; Python-Markdown would show the backslash."""

    def unescaped(row: re.Match[str]) -> str:
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])

    return re.sub(r"^\|.*$", unescaped, markdown, flags=re.MULTILINE)


def on_page_markdown(markdown: str, *, page, config, files) -> str:
    if page.file.src_uri.startswith("reference/"):
        page.meta.setdefault("search", {"boost": 0.3})
    return _code_in_tables(_markdown_of_page(markdown, page))


def _markdown_of_page(markdown: str, page) -> str:
    if page.file.src_uri == "reference/python_quantize.md":
        others = _names_without_a_place()
        return markdown.replace("<!-- other public names -->", f"## Other names\n\n{others}" if others else "")
    if page.file.src_uri == "reference/adapters.md":
        names = sorted(path.stem for path in (ROOT / "python/bitmma/adapters").glob("[!_]*.py"))
        markdown = markdown.replace(
            "<!-- adapters -->", "\n\n".join(f"## {name}\n\n{_adapter.format(name)}" for name in names)
        )
    if page.file.generated_by is None:
        return _relinked(f"docs/{page.file.src_uri}", _with_pictures(_with_tables(markdown)))
    return markdown


def on_page_context(context: dict, *, page, config, nav) -> dict:
    """Gives the room of the table of contents to the text if the page has no sections."""
    if not any(entry.children for entry in page.toc):
        page.meta.setdefault("hide", []).append("toc")
    return context


def on_post_build(*, config) -> None:
    """Changes URLs in the theme's scripts, which would otherwise fetch mermaid, unused here, from elsewhere. Puts the
    program beside the page of the playground, if tools/playground has built it: without it the page says how."""
    made = ROOT / "build/playground/page"
    if (made / "bitmma.wasm").is_file():
        for name in ("bitmma.wasm", "notices.txt"):
            shutil.copy(made / name, pathlib.Path(config.site_dir) / "playground")
    else:
        print("The site's playground has no program: tools/playground builds it")
    scripts = pathlib.Path(config.site_dir) / "assets/javascripts"
    for path in scripts.rglob("*.js.map"):
        path.unlink()
    for path in scripts.rglob("*.js"):
        text = path.read_text()
        text = re.sub(r"\n//# sourceMappingURL=.*", "", text)
        path.write_text(re.sub(r"https://unpkg\.com/", "not-here/", text))
