"""Recipes: how the events of the libraries that models are called with go into a stream, and come out of it again.

Each module belongs to one library and has the same three functions, as far as they make sense for it:

    encode(event)             the message, as small as the library's own wire format; for `tee(…, encode=encode)`
    decode(message)           the library's own event again
    read(event, message)      the chunks of a chat message that an event makes; for `ui_messages.chunks(…, read)`

No recipe is imported unless it is asked for, and none calls a model.
"""
