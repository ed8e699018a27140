"""Streams that are deleted, created anew, cut and forked under running jobs, while driver and server are killed."""
