"""Backups: copies of a store at one moment, each whole and verified, or not there at all."""
