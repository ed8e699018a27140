"""Header lines that several answers share."""

from everbrook.protocol.reading import Page

CLOSED = b"Stream-Closed: true\r\n"
UP_TO_DATE = b"Stream-Up-To-Date: true\r\n"


def page_lines(page: Page) -> bytes:
    """Tell where a reader stands after a page (§5.6)."""
    return b"Stream-Next-Offset: %016d\r\n%b%b" % (
        page.end,
        UP_TO_DATE if page.up_to_date else b"",
        CLOSED if page.final else b"",
    )
