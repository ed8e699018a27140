"""A recipe loads its own library, and nothing else does."""

import subprocess
import sys

import pytest

LIBRARIES = ("openai", "anthropic", "langgraph", "langchain_core", "pydantic_ai")


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}} & set({LIBRARIES!r}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("module", ["tee", "responses", "recipes", "recipes.ui_messages"])
def test_what_belongs_to_no_library_loads_none(module: str) -> None:
    assert loaded_by(f"everbrook.client.{module}") == set()


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_a_recipe_loads_its_own_library_only(library: str) -> None:
    assert loaded_by(f"everbrook.client.recipes.{library}") == {library}
