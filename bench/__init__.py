"""The benchmark: this server and the Node reference under the same load, in turn, in one run.

`python -m bench` starts both, loads them alternately for a few rounds, prints one table and writes JSON. A figure
counts only if every answer was the expected one: a refusal or a broken connection ends the run with an error.
"""
