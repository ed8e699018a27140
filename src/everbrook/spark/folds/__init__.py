"""Folds: the result of a stream's messages, published as its snapshot at exactly the offset that was folded.

The snapshot is the position: a fold continues from the last one, a batch that is run again finds its work done, and
nothing else has to be kept.
"""
