"""Streams that are deleted, created again, cut and forked under running jobs, while driver and server are killed."""
