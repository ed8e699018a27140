"""What the extensions cost: listings, bootstraps, publishing and reads for programs, each beside a plain reference.

Run as `python -m bench.extensions`.
"""
