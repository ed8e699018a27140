"""No block of a page escapes, and each knows what the comment before it says."""

from pathlib import Path

import pytest

from tests.tooling.docs.page import Block, Note, UnknownNote, find_pages, parse_page


def test_fenced_and_indented_blocks_are_found_with_their_lines() -> None:
    page = "text\n\n```sh\nls\n```\n\n    indented\n\n- item\n  ~~~python\n  1\n  ~~~\n"
    assert parse_page(page) == [Block("sh", "ls\n", 4), Block("", "indented\n", 7), Block("python", "1\n", 11)]


def test_a_reason_not_to_run_belongs_to_the_block_right_below() -> None:
    first, second = parse_page("<!-- not run: it installs -->\n```sh\nls\n```\n\n```sh\nls\n```\n")
    assert (first.not_run, second.not_run) == ("it installs", "")


@pytest.mark.parametrize("note", [Note.OUTPUT, Note.UNTIL_INTERRUPTED])
def test_a_note_belongs_to_the_block_right_below(note: Note) -> None:
    first, second = parse_page(f"<!-- {note} -->\n\n```text\nls\n```\nand\n```text\nls\n```\n")
    assert (first.note, second.note) == (note, Note.NONE)


@pytest.mark.parametrize("comment", ["not run", "not run:", "skip", "Output"])
def test_a_misspelt_note_is_refused(comment: str) -> None:
    with pytest.raises(UnknownNote, match=f"line 3: .* got '{comment}'"):
        parse_page(f"<!-- {comment} -->\n```sh\nls\n```\n")


def test_a_comment_elsewhere_is_no_note() -> None:
    assert parse_page("<!-- settings: begin -->\n\ntext\n") == []


def test_preparation_within_a_comment_is_a_block() -> None:
    assert parse_page("<!-- sh\nls\n\ncat\n-->\n```sh\ndf\n```\n") == [
        Block("sh", "ls\n\ncat\n", 2),
        Block("sh", "df\n", 7),
    ]


@pytest.mark.parametrize(
    "line, file",
    [
        ("# app.py", "app.py"),
        ("// src/a.js", "src/a.js"),
        ("<!-- i.html -->", "i.html"),
        ("# run app.py", ""),
        ("#", ""),
    ],
)
def test_a_first_line_that_only_names_a_file_says_where_to_save_the_block(line: str, file: str) -> None:
    [block] = parse_page(f"```python\n{line}\n1\n```\n")
    assert block.file == file


def test_pages_are_found_by_their_place(tmp_path: Path) -> None:
    found = ["README.md", "docs/a/b.md", "examples/chat/README.md"]
    for name in [*found, "src/notes.md", "examples/chat/node_modules/x/README.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(path.relative_to(tmp_path)) for path in find_pages(tmp_path)] == found
