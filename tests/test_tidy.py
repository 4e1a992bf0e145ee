"""The shape of the code, read from its syntax trees: who imports whom, how long things are, what must not appear."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "scale0"
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "events": set(),
    "protocol": {"errors"},
    "core": {"protocol", "events", "errors"},
    "encoding": {"protocol", "errors"},
    "tracing": {"protocol", "errors"},
    "telemetry": {"events", "errors"},
    "management": {"core", "protocol", "encoding", "events", "errors"},
    "transport": {"management", "core", "protocol", "telemetry", "events", "errors"},
    "client": {"transport", "core", "protocol", "encoding", "tracing", "errors"},
    "worker": {"transport", "core", "protocol", "encoding", "tracing", "errors"},
    "simulator": {"core", "protocol", "encoding", "errors"},
    "testing": {"management", "client", "worker", "transport", "telemetry", "core", "protocol", "encoding", "errors"},
    "cli": {
        "management",
        "telemetry",
        "events",
        "testing",
        "client",
        "worker",
        "simulator",
        "transport",
        "core",
        "protocol",
        "encoding",
        "errors",
    },
    "__main__": {"cli"},
}
"""Each part of the package and the parts that it may import, besides itself."""

PIPELINE_SEES = {"events", "errors", "telemetry"}
PIPELINE_SEES_MORE = {
    "whatif": {"core", "protocol"},  # it replays through the real routing
    "source": {"client", "encoding", "protocol"},
    "calls": {"client", "encoding", "protocol"},
}
"""What the data pipeline may import of Scale0; no part of Scale0 but the command line imports the pipeline."""
SHOW_TRENDS = {f"src/scale0/management/http/{name}.py" for name in ("tables", "heat_maps")}
"""And these: they read the pipeline's tables, if there are any, when somebody asks for them."""

SPARKLESS = {"gold", "report", "why", "errors", "progress"}
"""Parts of the pipeline that read its tables without Spark."""

ZMQ_HOMES = {"transport", "client", "worker"}
PURE = {"protocol", "core", "errors", "events"}
IMPURE_MODULES = {
    "asyncio",
    "concurrent",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "structlog",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
    "zmq",
}
"""Time, chance and the outside world come into the core as arguments (decision 0001)."""

UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")

MIRRORED = ("cli", "client", "core", "management", "protocol", "transport", "worker")
"""Test directories whose files are named after the modules that they test."""

OTHER_SUBJECTS = {"golden"}
"""Test files that are named after something else: the bytes on the wire, which must not change unnoticed."""


def python_files(*places: str) -> list[Path]:
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py") if "__pycache__" not in path.parts)


SOURCES = python_files("src")
PROSE = python_files("src", "examples", "benchmarks")
EVERYTHING = python_files("src", "tests", "examples", "benchmarks")


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that `path` imports, anywhere in it, with its line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)}:{node.lineno}: imports are absolute here"
            module = node.module or ""
            yield module, node.lineno
            if module == "scale0":  # `from scale0 import errors` imports the part of that name
                for alias in node.names:
                    yield f"scale0.{alias.name}", node.lineno


def part_of(path: Path) -> str:
    """The part of the package that a source file belongs to: its directory, or its own name."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


PARTS = [path for path in SOURCES if path.is_relative_to(SOURCE) and path != SOURCE / "__init__.py"]


def test_a_part_imports_only_what_its_layer_allows() -> None:
    wrong = []
    for path in PARTS:
        part = part_of(path)
        assert part in LAYERS, f"{part} has no place in the import rule"
        for module, line in imports_of(path):
            if not module.startswith("scale0."):
                continue
            wanted = module.split(".")[1]
            is_public_name = wanted == "__version__" or wanted[0].isupper()
            if not is_public_name and wanted != part and wanted not in LAYERS[part]:
                wrong.append(f"{short(path)}:{line}: {part} may not import {wanted}")
    assert not wrong


def pipeline_files() -> Iterator[tuple[str, Path]]:
    home = ROOT / "src" / "scale0_pipeline"
    for path in SOURCES:
        if path.is_relative_to(home) and path != home / "__init__.py":
            yield path.relative_to(home).parts[0].removesuffix(".py"), path


def test_the_pipeline_imports_only_what_it_may_know_of_scale0() -> None:
    assert not [
        f"{short(path)}:{line}: {module}"
        for part, path in pipeline_files()
        for module, line in imports_of(path)
        if module.startswith("scale0.")
        and module.split(".")[1] not in PIPELINE_SEES | PIPELINE_SEES_MORE.get(part, set())
    ]


def test_only_the_command_line_and_the_page_that_shows_trends_import_the_pipeline() -> None:
    assert not [
        f"{short(path)}:{line}"
        for path in PARTS
        if part_of(path) != "cli" and short(path) not in SHOW_TRENDS
        for module, line in imports_of(path)
        if module.split(".")[0] in ("scale0_pipeline", "pyspark", "deltalake")
    ]


def test_tables_are_read_without_spark() -> None:
    assert not [
        f"{short(path)}:{line}"
        for part, path in pipeline_files()
        if part in SPARKLESS
        for module, line in imports_of(path)
        if module.split(".")[0] == "pyspark"
    ]


def test_zeromq_appears_only_in_the_shells() -> None:
    assert not [
        f"{short(path)}:{line}"
        for path in PARTS
        if part_of(path) not in ZMQ_HOMES
        for module, line in imports_of(path)
        if module.split(".")[0] == "zmq"
    ]


def test_the_core_knows_no_time_no_chance_and_no_outside_world() -> None:
    assert not [
        f"{short(path)}:{line}: {module}"
        for path in PARTS
        if part_of(path) in PURE
        for module, line in imports_of(path)
        if module.split(".")[0] in IMPURE_MODULES
    ]


def test_nothing_that_can_run_code_from_bytes_is_imported() -> None:
    assert not [
        f"{short(path)}:{line}: {module}"
        for path in EVERYTHING
        for module, line in imports_of(path)
        if module.split(".")[0] in UNSAFE_MODULES
    ]


def test_modules_are_short() -> None:
    lengths = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PROSE}
    assert not {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX}


def test_functions_fit_on_a_screen() -> None:
    assert not [
        f"{short(path)}:{node.lineno}: {node.name} has {lines} lines"
        for path in PROSE
        for node in functions_of(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def test_a_module_says_what_it_is_for() -> None:
    assert not [short(path) for path in PROSE if tree_of(path).body and not ast.get_docstring(tree_of(path))]


def test_annotations_are_not_evaluated_at_import() -> None:
    assert not [
        short(path)
        for path in SOURCES
        if functions_of(path) and not any(module == "__future__" for module, _line in imports_of(path))
    ]


def test_nothing_is_left_unfinished() -> None:
    assert not [
        f"{short(path)}:{number}: {line.strip()}"
        for path in EVERYTHING
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]


def test_a_test_file_is_named_after_the_module_that_it_tests() -> None:
    wrong = []
    for package in MIRRORED:
        modules = {path.stem for path in (SOURCE / package).glob("*.py")} | {path.stem for path in SOURCE.glob("*.py")}
        for path in (ROOT / "tests" / package).glob("test_*.py"):
            subject = path.stem.removeprefix("test_")
            is_named_so = any(subject == module or subject.startswith(f"{module}_") for module in modules)
            if not is_named_so and subject not in OTHER_SUBJECTS:
                wrong.append(short(path))
    assert not wrong


def test_the_names_of_tests_are_sentences() -> None:
    assert not [
        f"{short(path)}:{node.lineno}: {node.name}"
        for path in python_files("tests")
        for node in functions_of(path)
        if node.name.startswith("test_") and node.name.count("_") < 2
    ]


def test_tests_wait_for_events_and_never_sleep() -> None:
    wrong = []
    for path in python_files("tests"):
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"):
                continue
            is_yield = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if not is_yield:
                wrong.append(f"{short(path)}:{node.lineno}")
    assert not wrong
