"""Jobs as configuration: a file of sources and sinks, and a runner that restarts what fails.

`everbrook pipeline` runs them. `load` reads and checks a file without Spark; `runner` needs Spark.
"""
