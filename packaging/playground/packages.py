#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes CMake packages of the header-only libraries of this machine, for another system: links to their headers alone,
since those of the machine's C library lie beside them.

    packages.py FOLDER [INCLUDE ...]     INCLUDE: where the headers are looked for
"""

import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
places = [pathlib.Path(name) for name in sys.argv[2:] or ["/usr/local/include", "/usr/include"]]
# The package, its target and definitions, the folder of headers, and the files and names of its version.
rows = [
    (
        "Eigen3",
        "Eigen3::Eigen",
        "",
        "eigen3/Eigen",
        "eigen3/Eigen/src/Core/util/Macros.h",
        "EIGEN_WORLD_VERSION EIGEN_MAJOR_VERSION EIGEN_MINOR_VERSION",
    ),
    ("fmt", "fmt::fmt-header-only", "FMT_HEADER_ONLY=1", "fmt", "fmt/core.h fmt/base.h", "FMT_VERSION"),
    (
        "nlohmann_json",
        "nlohmann_json::nlohmann_json",
        "",
        "nlohmann",
        "nlohmann/json.hpp nlohmann/detail/abi_macros.hpp",
        "NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR NLOHMANN_JSON_VERSION_PATCH",
    ),
    (
        "CLI11",
        "CLI11::CLI11",
        "",
        "CLI",
        "CLI/Version.hpp",
        "CLI11_VERSION_MAJOR CLI11_VERSION_MINOR CLI11_VERSION_PATCH",
    ),
]


def version(place: pathlib.Path, files: str, names: str) -> str:
    text = "".join((place / name).read_text() for name in files.split() if (place / name).exists())
    numbers = [re.search(rf"#define {name} (\d+)", text) for name in names.split()]
    if names == "FMT_VERSION" and numbers[0]:  # 90100 is 9.1.0
        number = int(numbers[0][1])
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return ".".join(number[1] for number in numbers if number)


include = folder / "include"
include.mkdir(parents=True, exist_ok=True)
for name, target, definitions, headers, version_files, version_names in rows:
    place = next((place for place in places if (place / headers).is_dir()), None)
    if place is None:
        sys.exit(f"packages.py: {headers} is not in {', '.join(map(str, places))}; tools/setup installs it")
    link = include / pathlib.Path(headers).name
    link.unlink(missing_ok=True)
    link.symlink_to(place / headers)
    (folder / f"{name}Config.cmake").write_text(
        f"if(NOT TARGET {target})\n"
        f"  add_library({target} INTERFACE IMPORTED)\n"
        f"  set_target_properties({target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES [=[{include.resolve()}]=]\n"
        f'                        INTERFACE_COMPILE_DEFINITIONS "{definitions}")\n'
        f"endif()\n"
    )
    (folder / f"{name}ConfigVersion.cmake").write_text(
        f"set(PACKAGE_VERSION {version(place, version_files, version_names)})\nset(PACKAGE_VERSION_COMPATIBLE ON)\n"
    )
