"""The Spark connector, measured on local Spark: how fast it reads and copies, and how soon a row is processed.

Each part runs on our server and, where it can serve, on the Node reference, in turns within one session of Spark.
"""
