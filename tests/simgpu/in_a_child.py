"""A changed piece of the engine is looked at in a process of its own: changed code may crash."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

CRASHED = -1
_RAISED = 255


def in_a_child(look: Callable[[], int]) -> int:
    """What `look` answers, a number below 255, or `CRASHED`."""
    child = os.fork()
    if child == 0:
        answer = _RAISED
        try:
            answer = look()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(answer)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return CRASHED
    if os.WEXITSTATUS(status) == _RAISED:
        raise RuntimeError("a change could not be looked at; why stands above")
    return os.WEXITSTATUS(status)
