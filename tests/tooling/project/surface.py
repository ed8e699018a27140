"""Lists what users rely on by name: the Python interface, refusals, headers, metrics, commands.

``python -m tests.tooling.project.surface`` writes the list to `surface.txt`. A change of that file is one that users
see, so it belongs into the changelog. Settings have their own list, `config/default.toml`.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click

from everbrook.cli.main import everbrook as command_line
from everbrook.protocol.errors import ProtocolError

ROOT = Path(__file__).parents[3]
LIST = Path(__file__).with_name("surface.txt")
PACKAGES = ("everbrook", "everbrook.spark")
_SHOWN = re.compile(r"^\s*from (everbrook[\w.]*) import ([^#(\n]+)", re.MULTILINE)
_HEADER = re.compile(r"(stream|producer)(-[a-z]+)+", re.IGNORECASE)
_METRIC = re.compile(r"everbrook_[a-z_]+_(total|seconds|bytes|info)")


def surface() -> str:
    """Write the whole list, one name in a line."""
    parts = [
        *_python_lines(),
        *sorted(f"refusal {code}" for code in _refusals()),
        *sorted({f"header {text.lower()}" for text in _texts() if _HEADER.fullmatch(text)}),
        *sorted({f"metric {text}" for text in _texts() if _METRIC.fullmatch(text)}),
        *_command_lines(command_line, "everbrook"),
    ]
    return "\n".join(parts) + "\n"


def _python_lines() -> Iterator[str]:
    """List each name that a public package exports, or that the documentation or an example imports."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    programs = [path for path in (ROOT / "examples").rglob("*.py") if "node_modules" not in path.parts]
    shown = {(package, name) for package in PACKAGES for name in import_module(package).__all__}
    for page in [*pages, *programs]:
        for module, names in _SHOWN.findall(page.read_text()):
            shown.update((module, name.split()[0]) for name in names.split(",") if name.strip())
    for module, name in sorted(shown):
        value = _imported(module, name)
        if isinstance(value, ModuleType):
            yield from (
                line
                for each in _defined_in(value)
                for line in _value_lines(f"{module}.{name}.{each}", getattr(value, each))
            )
        else:
            yield from _value_lines(f"{module}.{name}", value)


def _imported(module: str, name: str) -> object:
    """Give what `from module import name` gives."""
    package = import_module(module)
    return getattr(package, name) if hasattr(package, name) else import_module(f"{module}.{name}")


def _defined_in(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _value_lines(name: str, value: object) -> Iterator[str]:
    if not callable(value):
        yield name
        return
    yield name + _parameters(value)
    if isinstance(value, type):
        for member in sorted(dir(value)):
            owner = next((base for base in value.__mro__ if member in vars(base)), object)
            if not member.startswith("_") and owner.__module__.startswith("everbrook"):
                attribute = inspect.getattr_static(value, member)
                yield f"{name}.{member}{_parameters(getattr(value, member)) if callable(attribute) else ''}"


def _parameters(value: Callable[..., object]) -> str:
    """Write names and defaults of parameters, without their types."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    return "(" + ", ".join(_parameter(each) for each in signature.parameters.values()) + ")"


_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _parameter(each: inspect.Parameter) -> str:
    mark = ":" if each.kind is inspect.Parameter.KEYWORD_ONLY else _STARS.get(each.kind, "")
    default: object = each.default
    if default is inspect.Parameter.empty:
        return mark + each.name
    simple = default is None or isinstance(default, str | int | float | bool | bytes)
    return f"{mark}{each.name}={default if simple else '…'}"


def _refusals() -> Iterator[str]:
    waiting = [ProtocolError]
    while waiting:
        refusal = waiting.pop()
        waiting += refusal.__subclasses__()
        if refusal.__module__.startswith("everbrook.protocol"):
            yield f"{getattr(refusal, 'code', '-')} {getattr(refusal, 'status', '-')} {refusal.__name__}"


def _texts() -> set[str]:
    """Give every literal of the code that is a text, or bytes of ASCII."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                value = node.value
                found.add(value if isinstance(value, str) else value.decode("latin-1"))
    return found


def _command_lines(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    options = (
        "/".join([*each.opts, *each.secondary_opts]) if isinstance(each, click.Option) else str(each.name).upper()
        for each in command.params
    )
    yield " ".join([f"command {name}", *options])
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None:
                yield from _command_lines(child, f"{name} {each}")


if __name__ == "__main__":
    LIST.write_text(surface())
