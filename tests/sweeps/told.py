"""An executor that computes in this process, in an order of its own, and counts."""

from tileprobe.sweeps.outcome import DONE, REFUSED, Outcome


class Computed:
    where = "here"

    def __init__(self, function, room=5, last_first=False):
        self.function, self.roomy, self.last_first = function, room, last_first
        self.tasks, self.ran = [], []

    def room(self):
        return self.roomy

    def submit(self, task, seconds):
        self.tasks.append(task)

    def wait(self, seconds):
        task = self.tasks.pop(-1 if self.last_first else 0)
        self.ran.append(task.settings)
        try:
            outcome = Outcome(DONE, "", self.function(task.settings))
        except ValueError as error:
            outcome = Outcome(REFUSED, str(error))
        return [(task.point, outcome)]

    def close(self):
        pass
