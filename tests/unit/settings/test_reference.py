"""The files that repeat the schema for people say what the schema says."""

import tomllib
from pathlib import Path

import pytest

from everbrook.settings import Settings, load_settings, reference
from everbrook.settings.fields import FIELDS, Field, format_value

ROOT = Path(__file__).parents[3]
STALE = "run: python -m everbrook.settings.reference"


def load_alone(path: Path) -> Settings:
    """Load one file of the project, without whatever else is in its folder."""
    return load_settings(config_file=ROOT / path, folder=Path("nowhere"), environ={})


def test_the_default_file_holds_every_setting_with_its_default() -> None:
    written = tomllib.loads((ROOT / reference.DEFAULT_FILE).read_text(encoding="utf-8"))
    assert written.pop("everbrook") is True
    values = {f"{section}.{key}": value for section, table in written.items() for key, value in table.items()}
    assert values == {name: field.default for name, field in FIELDS.items() if not field.optional}


@pytest.mark.parametrize("field", [field for field in FIELDS.values() if field.optional], ids=lambda field: field.name)
def test_the_default_file_shows_what_is_unset_as_a_comment(field: Field) -> None:
    lines = (ROOT / reference.DEFAULT_FILE).read_text(encoding="utf-8").splitlines()
    assert f"# {field.key} = {format_value(field.example)}" in lines


def test_words_with_hyphens_are_kept_whole_in_the_default_file() -> None:
    assert "`file-fast`" in reference.format_default_file()


def test_the_default_file_is_up_to_date() -> None:
    assert (ROOT / reference.DEFAULT_FILE).read_text(encoding="utf-8") == reference.format_default_file(), STALE


def test_the_default_file_changes_nothing() -> None:
    assert load_alone(reference.DEFAULT_FILE) == Settings()


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / reference.PAGE).read_text(encoding="utf-8")
    assert reference.render_page(page) == page, STALE


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_the_page_has_a_row_for_every_setting(field: Field) -> None:
    row = f"| `{field.name}` | `{field.env}` | `{format_value(field.default)}` |"
    assert row in (ROOT / reference.PAGE).read_text(encoding="utf-8")


def test_a_stale_page_is_rendered_anew_between_its_markers() -> None:
    page = "before\n<!-- settings: begin -->\nold\n<!-- settings: end -->\nafter\n"
    begin, end = "before\n<!-- settings: begin -->\n", "<!-- settings: end -->\nafter\n"
    assert reference.render_page(page) == begin + reference.format_tables() + end


def test_writing_brings_both_files_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (reference.PAGE, reference.DEFAULT_FILE):
        path.parent.mkdir()
        path.write_text("<!-- settings: begin -->\n<!-- settings: end -->\n")
    reference.write()
    assert "DS_SERVER__PORT" in reference.PAGE.read_text()
    assert load_settings(environ={}) == Settings()


@pytest.mark.parametrize("profile", ["dev", "prod"])
def test_a_profile_that_comes_with_the_project_can_be_used(profile: str) -> None:
    assert load_alone(Path(f"config/{profile}.toml")) != Settings()


def test_the_development_profile_waits_briefly() -> None:
    settings = load_alone(Path("config/dev.toml"))
    assert (settings.server.long_poll_timeout_secs, settings.server.sse_reconnect_interval_secs) == (2.0, 5.0)
