"""Jobs as configuration: a file that says what is copied from where to where, and a runner that keeps it going.

`everbrook pipeline` runs them. `load` reads and checks a file without Spark; `runner` needs Spark.
"""
