"""A job shop in plain Python: 30 jobs, as many actions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Observation, Problem, Step, box, numbers

IDLE = -1


class JobShop(Problem):
    """Start the operations of jobs on machines, one operation after the other.

    Every job visits every machine once, in an order of its own; a machine works on one
    job at a time. Minutes, orders and weights are drawn at the start of an episode.
    Time passes when no job waits for an idle machine. An episode ends with the last
    job.

    Scalar loops over lists, as in many environments of users: the benchmark of speed
    steps this environment too.

    ## Actions
    `Discrete(num_jobs)`: the job whose next operation starts. A job is available if it
    is not being worked on and its next machine is idle.

    ## Observations
    Of each job `weight`, `next_minutes`, `minutes_left` (of its operations that have
    not started), and `next_machine` (the number of machines after the last operation);
    `machine_minutes` until each machine is idle. The mask is in the info.

    ## Rewards
    Minus the minutes that pass, times the sum of the weights of the jobs that are not
    complete, in units of 1,000: the sum of weighted completion times.

    ## Rule
    The job with the largest weight per minute of its work left. On small shops its cost
    is on average within 5 % of the optimum.

    Args:
        num_jobs: Number of jobs, and of actions.
        num_machines: Number of machines.
        action_features: Whether observations hold rows of features per action.
    """

    UNIT = 1000.0
    SHORTEST, LONGEST = 5, 60
    HEAVIEST = 10

    def __init__(
        self, num_jobs: int = 30, num_machines: int = 5, action_features: bool = False
    ) -> None:
        self.num_jobs, self.num_machines = num_jobs, num_machines
        longest, work = float(self.LONGEST), float(self.LONGEST * num_machines)
        context = {"machine_minutes": box(0, longest, num_machines)}
        features = {
            "weight": (0.0, float(self.HEAVIEST)),
            "next_minutes": (0.0, longest),
            "minutes_left": (0.0, work),
            "next_machine": (0.0, float(num_machines)),
        }
        columns = {name: box(*ends, num_jobs) for name, ends in features.items()}
        super().__init__(
            context | columns, context, features, num_jobs, action_features
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Draw the jobs; nothing has started yet."""
        super().reset(seed=seed, options=options)
        draw, shape = self.np_random.integers, (self.num_jobs, self.num_machines)
        self.weight = draw(1, self.HEAVIEST + 1, size=self.num_jobs).tolist()
        self.minutes = draw(self.SHORTEST, self.LONGEST + 1, size=shape).tolist()
        self.route = draw(2**31, size=shape).argsort(axis=1).tolist()
        self.minutes_left = [sum(minutes) for minutes in self.minutes]
        self.num_started = [0] * self.num_jobs
        self.is_worked_on = [False] * self.num_jobs
        self.current_job = [IDLE] * self.num_machines
        self.machine_minutes = [0] * self.num_machines
        self.mask = self._mask()
        return self._observation(), self._info()

    def step(self, action: int) -> Step:
        """Start the next operation of a job, and let time pass until a job waits."""
        job = self._check(action, np.array(self.mask))
        operation = self.num_started[job]
        machine = self.route[job][operation]
        self.current_job[machine] = job
        self.is_worked_on[job] = True
        self.machine_minutes[machine] = self.minutes[job][operation]
        self.minutes_left[job] -= self.minutes[job][operation]
        self.num_started[job] += 1
        self.mask, cost = self._mask(), 0.0
        while not any(self.mask) and any(self.is_worked_on):
            cost += self._pass_time()
            self.mask = self._mask()
        is_over = not any(self.mask)
        if is_over:  # Nobody chooses after the end.
            self.mask = [True] * self.num_jobs
        return self._observation(), -cost / self.UNIT, is_over, False, self._info()

    def rule(self, observation: Observation, mask: NDArray[Any]) -> int:
        """Return the available job with the largest weight per minute of work left."""
        minutes = np.maximum(observation["minutes_left"], 1)
        return int(np.where(mask, observation["weight"] / minutes, -1).argmax())

    def _pass_time(self) -> float:
        """Let time pass until a machine becomes idle; return the weighted minutes."""
        minutes = min(left for left in self.machine_minutes if left > 0)
        waiting = sum(
            weight
            for weight, is_worked_on, started in zip(
                self.weight, self.is_worked_on, self.num_started, strict=True
            )
            if is_worked_on or started < self.num_machines
        )
        for machine, job in enumerate(self.current_job):
            if job == IDLE:
                continue
            self.machine_minutes[machine] -= minutes
            if self.machine_minutes[machine] == 0:
                self.current_job[machine] = IDLE
                self.is_worked_on[job] = False
        return float(minutes * waiting)

    def _mask(self) -> list[bool]:
        is_idle = [job == IDLE for job in self.current_job]
        return [
            started < self.num_machines and not is_worked_on and is_idle[route[started]]
            for started, is_worked_on, route in zip(
                self.num_started, self.is_worked_on, self.route, strict=True
            )
        ]

    def _info(self) -> Info:
        return {"action_mask": np.array(self.mask, dtype=np.int8)}

    def _context(self) -> Observation:
        return {"machine_minutes": numbers(self.machine_minutes)}

    def _columns(self) -> list[NDArray[Any]]:
        minutes, machines = [], []
        for job, started in enumerate(self.num_started):
            is_complete = started == self.num_machines
            minutes.append(0 if is_complete else self.minutes[job][started])
            machines.append(started if is_complete else self.route[job][started])
        columns = self.weight, minutes, self.minutes_left, machines
        return [numbers(column) for column in columns]

    def _flat(self) -> Observation:
        names = "weight", "next_minutes", "minutes_left", "next_machine"
        return self._context() | dict(zip(names, self._columns(), strict=True))
