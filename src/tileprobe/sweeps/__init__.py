"""Sweeps: one function over many points, each exactly once in the result, on this machine or on a cluster.

A point is plain data (settings), a result is plain data, and the function is named as `module:function`: nothing else
crosses to a worker, so there is nothing that cannot be sent. `driver` decides what runs, `executors` say where,
`ledger` keeps what came of it, `search` chooses points instead of a grid. Targets hand in their functions; nothing here
knows of them.
"""
