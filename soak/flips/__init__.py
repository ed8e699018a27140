"""Damage to stored files: what a store says after bit flips, lost sectors, and lost, swapped and outdated files.

Here are the workload, the ways to damage its files, and the judge. Crashes and kills of servers are beside this folder.
"""
