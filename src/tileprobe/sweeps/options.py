"""The options that every sweep has. Nothing heavy is imported here, since `tileprobe --help` reads it."""

from __future__ import annotations

from typing import Any


def add_arguments(parser: Any) -> None:
    """The options that every sweep has."""
    group = parser.add_argument_group("where points run, and what becomes of them")
    group.add_argument(
        "--on", default="local", metavar="WHERE",
        help="local (processes of this machine), dask://host:port or ray://host:port of a cluster that runs, dask or "
        "ray to start one on this machine for this run (default %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="processes, where they are started here (default: all cores)",
    )
    group.add_argument(
        "--out", default="sweep", metavar="NAME",
        help="results go to NAME.jsonl as they come, and into the table NAME.parquet at the end (default %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--restart", action="store_true", help="do not go on: forget the results that are in NAME.jsonl"
    )
    group.add_argument(
        "--retries", type=int, default=3, metavar="N",
        help="further attempts at a point that raised, hung or lost its worker (default %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--point-seconds",
        type=float,
        metavar="S",
        help="a point that takes longer is killed (default: no limit)",
    )
