"""All servers in one run: in memory among each other, on disk among each other, each alone while it is measured.

What belongs here: who takes part, the turns, and how their results are shown. Servers are in `bench.subjects`.
"""
