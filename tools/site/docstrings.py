"""Converts the package's docstrings to Markdown: aligned names become a table; examples and indented lines stay
unchanged. Attributes of a class become one table below its docstring."""

from __future__ import annotations

import ast
import re
import textwrap

import griffe

# "rows, cols    which rows and columns": names, two spaces or more, words.
_entry = re.compile(r"^([*\w.]+(?:, [*\w.]+)*) {2,}(\S.*)$")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "&#91;").replace("<", "&lt;").replace("*", "&#42;")


def _cell(words: str) -> str:
    return "`".join(part if index % 2 else _escaped(part) for index, part in enumerate(words.split("`")))


def _table(lines: list[str]) -> list[str]:
    rows: list[list[str]] = []
    for line in lines:
        entry = _entry.match(line)
        if entry:
            rows.append([entry[1], entry[2]])
        else:
            rows[-1][1] += " " + line.strip()
    out = ["", "| | |", "|---|---|"]
    for names, words in rows:
        out.append(f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {_cell(words)} |")
    return [*out, ""]


def _literal(lines: list[str], language: str) -> list[str]:
    shift = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return ["", f"```{language}", *(line[shift:] for line in lines), "```", ""]


def _is_python(lines: list[str]) -> bool:
    try:
        ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return False
    return True


def markdown_of(text: str) -> str:
    """One docstring."""
    lines, out, here = text.splitlines(), [], 0
    while here < len(lines):
        line, end = lines[here], here + 1
        if line.startswith(">>>"):
            while end < len(lines) and lines[end].strip():
                end += 1
            out += _literal(lines[here:end], "pycon")
        elif line.startswith("    "):
            while end < len(lines) and (
                lines[end].startswith("    ")
                or (not lines[end].strip() and "".join(lines[end + 1 : end + 2]).startswith("    "))
            ):
                end += 1
            out += _literal(lines[here:end], "python" if _is_python(lines[here:end]) else "text")
        elif _entry.match(line):
            while end < len(lines) and (lines[end].startswith("  ") or _entry.match(lines[end])):
                end += 1
            out += _table(lines[here:end])
        elif line.startswith("- ") and out and out[-1].strip() and not out[-1].startswith(("- ", "  ")):
            out += ["", line]
        else:
            out.append(line)
        here = end
    return "\n".join(out)


def _with_attributes(one: griffe.Class) -> str:
    """The docstring of a class and a table of its public attributes, which it removes from the members."""
    rows = []
    for name, member in list(one.members.items()):
        if not member.is_alias and member.is_attribute and not name.startswith("_"):
            words = " ".join(member.docstring.value.split()) if member.docstring else ""
            kind = f"`{member.annotation}`" if member.annotation else ""
            rows.append(f"| `{name}` | {kind} | {_cell(words)} |")
            one.del_member(name)
    said = markdown_of(one.docstring.value) if one.docstring else ""
    return "\n".join([said, "", "| | | |", "|---|---|---|", *rows]) if rows else said


class Readable(griffe.Extension):
    """Applied to every docstring that griffe reads."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        waiting: list[griffe.Object] = [pkg]
        while waiting:
            here = waiting.pop()
            said = (
                _with_attributes(here) if here.is_class else markdown_of(here.docstring.value) if here.docstring else ""
            )
            if said and here.docstring:
                here.docstring.value = said
            elif said:
                here.docstring = griffe.Docstring(said, parent=here)
            waiting += [member for member in here.members.values() if not member.is_alias]
