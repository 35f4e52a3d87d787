"""`make peers`: this project compared with the systems that a user would take instead.

Every way copies the same topic of JSON records to files of Parquet, on the same two cores, with the
same commit interval. `ways.py` lists them, `ladder.py` measures the rates, `kills.py` counts rows
after kills, and `page.py` writes `docs/benchmarks/peers.json`. Flink and the loop run in virtual
environments of their own below `build/peers/`, so that no package of this project changes for them.
"""
