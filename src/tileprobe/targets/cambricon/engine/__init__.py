"""The event-driven engine: `program` is what it runs, `channel` the event loop, `run` the whole machine,
`launch` the door.
"""
