"""The same application as an ASGI callable, to run under an ASGI server or to mount in FastAPI or Starlette.

    app = FastAPI(lifespan=streams.lifespan)        # streams = create_app()
    app.mount("/streams", streams)

A mounted application gets no lifespan events, so the outer application should use its `lifespan`. Without that, it
starts with the first request.
"""

import logging

from everbrook.server.asgi.adapter import AsgiApplication
from everbrook.settings import Settings, load_layers

logger = logging.getLogger(__name__)

__all__ = ["AsgiApplication", "create_app"]


def create_app(settings: Settings | None = None) -> AsgiApplication:
    """Make an ASGI application. Without settings, they come from the files and the environment."""
    if settings is None:
        layered = load_layers()
        settings = layered.settings
        for remark in layered.remarks:
            logger.warning("%s", remark)
    return AsgiApplication(settings)
