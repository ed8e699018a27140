"""Recipes: encoders and decoders for the events of libraries that call models.

Each module belongs to one library and has those of these functions that make sense for it:

    encode(event)             the message, as short as in the API of the library; for `tee(…, encode=encode)`
    decode(message)           the event as the class of the library
    read(event, message)      the chunks of a chat message that an event makes; for `ui_messages.chunks(…, read)`

A program imports the recipe that it needs. No recipe calls a model.
"""
