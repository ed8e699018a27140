"""Looking at the streams of a server that has what folds need.

A Python of Spark may be kept for the next look: then it asks only for what moved since its last.
"""

import os

from everbrook.client.errors import Unsupported
from everbrook.spark.catalogue import Catalogue, open_catalogue
from everbrook.spark.connection import connect
from everbrook.spark.folds.options import FoldOptions
from everbrook.spark.options import Selection, ServerOptions


def open_streams(options: FoldOptions) -> Catalogue:
    """Look at the streams of a server that has what folds need, or say what is missing."""
    try:
        catalogue = open_catalogue(connect(options.server, options.selection.bucket), options.selection)
    except Unsupported as error:
        raise _unsupported() from error
    if not catalogue.exact:
        raise _unsupported()
    catalogue.refresh()
    return catalogue


_looked: dict[tuple[int, ServerOptions, Selection], Catalogue] = {}


def look_again(options: FoldOptions) -> Catalogue:
    """Look at the streams as they are now. If this process has looked at them last, it asks for those that moved."""
    key = (os.getpid(), options.server, options.selection)
    catalogue = _looked.pop(key, None)
    if catalogue is None:
        catalogue = open_streams(options)
    else:
        catalogue.refresh()
    _looked.clear()  # one of them is enough memory for a process that Spark keeps
    _looked[key] = catalogue
    return catalogue


def _unsupported() -> Unsupported:
    return Unsupported(
        "folds need a server that has snapshots, lists its streams and bounds reads (snapshots, listing and "
        "bounded-reads in Stream-Extensions), which this one does not"
    )
