"""Folds: what the messages of a stream add up to, published as its snapshot at exactly the offset that was folded.

The snapshot is the position. A fold goes on from the last one, a batch that is run again finds its work done, and
nothing has to be kept elsewhere.
"""
