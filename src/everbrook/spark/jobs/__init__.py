"""Jobs as configuration: a file that says what is copied from where to where, and a runner that keeps it going.

`everbrook pipeline` is the way in. What reads and checks a file needs no Spark; `running` does.
"""
