"""Converts a public header to Markdown: its opening comment, then each declaration unchanged, below its comment.

    /// The plan of one chain over K.          ### `flat_plan`
    GemmPlan flat_plan(Target target, ..);  ->  The plan of one chain over K.
                                                (the declaration, word for word)

This parses only comments, blank lines and brackets. It searches for the names of declarations to make headings; an item
without a known name gets no heading.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple


class Item(NamedTuple):
    """A comment and the declarations below it; `section` is the title of a rule line of dashes before it."""

    section: str
    comment: list[str]
    code: list[str]


_string_or_comment = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*')
_rule_line = re.compile(r"^// -{8,} (.+)$")
_left_out = re.compile(
    r"#pragma once|#include|#ifndef BITMMA_H|#define BITMMA_H$|// clang-format|"
    r"(inline )?namespace [\w:]+ \{$|\}  // namespace"
)


def _depth_of(line: str) -> int:
    """The change of the bracket depth from this line to the next."""
    plain = _string_or_comment.sub("", line)
    return sum(plain.count(one) for one in "{([") - sum(plain.count(one) for one in "})]")


def opening_comment(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return [line for line in lines if not line.startswith("SPDX-")]


def items_of(text: str) -> list[Item]:
    """The items of a header after its opening comment."""
    lines = list(itertools.dropwhile(lambda line: line.startswith("//"), text.splitlines()))
    items: list[Item] = []
    section, comment, code, depth = "", [], [], 0
    skipped_block = False

    def finish() -> None:
        nonlocal comment, code
        if code:
            items.append(Item(section, comment, code))
        comment, code = [], []

    for line in lines:
        if line.startswith("#ifdef __cplusplus"):
            skipped_block = True
        if skipped_block:
            skipped_block = not line.startswith("#endif")
            continue
        if line.startswith("#endif") or (depth == 0 and _left_out.match(line)):
            continue
        rule = _rule_line.match(line)
        if depth == 0 and rule:
            finish()
            section, comment = rule[1], []
        elif depth == 0 and not line.strip():
            finish()
        elif depth == 0 and line.startswith("//"):
            if code:
                finish()
            comment.append(re.sub(r"^///? ?", "", line))
        else:
            code.append(line)
            depth += _depth_of(line)
    finish()
    return items


_type_name = re.compile(r"^(?:template <.*> )?(?:struct|class|enum class|enum|union) (?:\[\[\w+\]\] )?(\w+)")
_using_name = re.compile(r"^using (\w+) =")
_define_name = re.compile(r"^#define (\w+)")
_typedef_name = re.compile(r"^typedef .*?(\w+);$")
_function_name = re.compile(r"(operator\S+?|\b\w+)\(")
_value_name = re.compile(r"\b(\w+)(?:\[\w*\])? ?(?:=|\{|;)")


def names_of(code: list[str]) -> list[str]:
    """The distinct names of the declarations."""
    names: list[str] = []
    statement, depth = "", 0
    for line in code:
        plain = re.sub(r"//.*", "", line).rstrip()
        if line.startswith("#define"):
            names.append(_define_name.match(line)[1])
            continue
        if depth == 0 or not statement:
            statement = (statement + " " + plain.strip()).strip()
        elif plain.startswith("}"):
            statement += " " + plain
        depth += _depth_of(line)
        if depth == 0 and plain.endswith((";", "}")):
            names += [name for name in [_name_of(statement)] if name]
            statement = ""
    return list(dict.fromkeys(names))


def _name_of(statement: str) -> str | None:
    if statement.startswith(("static_assert", "friend")):
        return None
    if statement.startswith("typedef"):
        found = _typedef_name.match(statement)
        return found and found[1]
    for pattern in (_type_name, _using_name):
        if found := pattern.match(statement):
            return found[1]
    before_value = statement.split(" = ")[0]
    found = _function_name.search(before_value) or _value_name.search(before_value + ";")
    return found and found[1]


def prose(lines: list[str]) -> str:
    """Comment lines as Markdown: indented lines stay unchanged, all others become text."""
    out: list[str] = []
    in_code = False
    for number, line in enumerate(lines):
        indented = line.startswith("  ") and not (out and not in_code and out[-1].lstrip().startswith("- "))
        blank_in_code = (
            in_code and not line.strip() and any(later.startswith("  ") for later in lines[number + 1 : number + 2])
        )
        if (indented or blank_in_code) != in_code:
            out += ["```", ""] if in_code else ["", "``` { .text .no-copy }"]
            in_code = not in_code
        if in_code:
            out.append(line[2:])
            continue
        if line.startswith("- ") and out and out[-1].strip() and not out[-1].startswith(("- ", "  ")):
            out.append("")
        # "smem_ptr[16b](unset)" is CuTe's text, no link.
        out.append(
            "`".join(
                part.replace("<", "&lt;").replace("](", "]&#40;") if index % 2 == 0 else part
                for index, part in enumerate(line.split("`"))
            )
        )
    if in_code:
        out.append("```")
    return "\n".join(out)


def _language(path: str) -> str:
    return "c" if path.endswith(".h") else "cpp"


def markdown_of(path: str, text: str, level: int = 2, only: str = "") -> str:
    """The whole header, or the section `only`. `path` is the path in an #include; headings begin at `level`."""
    out: list[str] = []
    section = ""
    for item in items_of(text):
        if only and item.section.lower() != only.lower():
            continue
        if item.section != section:
            section = item.section
            out.append(f"{'#' * level} {section[:1].upper()}{section[1:]}\n")
        names = names_of(item.code)
        if names:
            title = ", ".join(f"`{name}`" for name in names)
            first, *others = names
            anchor = f" {{ #{first} }}" if path.endswith(".h") else ""
            out.append(f"{'#' * (level + 1)} {title}{anchor}\n")
            if anchor and others:
                out.append("".join(f'<span id="{name}"></span>' for name in others) + "\n")
        if item.comment:
            out.append(prose(item.comment) + "\n")
        out.append("\n".join([f"```{_language(path)}", *item.code, "```"]) + "\n")
    return "\n".join(out)
