"""Load: client threads that submit, suspend, resume, preempt and cancel, and keep what was acknowledged."""

import random
import threading
import time

from harness import Down, Refused, pause
from stores import await_pause

PATIENCE_S = 120  # a client asks again for so long while nobody answers


class Promise:
    """One acknowledged job, and how it may end."""

    def __init__(self, job, name, outcomes, untouched):
        self.job = job
        self.name = name
        self.outcomes = outcomes
        self.untouched = untouched  # nobody may stop it: one attempt, one process a rank


class Load:
    """Runs until stop(); `threads` clients, each with one job at a time."""

    def __init__(self, site, seed, threads=4):
        self.site = site
        self.promises = []
        self.suspensions = 0
        self.cancels = 0
        self.errors = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._client, args=(n, random.Random(seed * 1000 + n)), daemon=True)
                         for n in range(threads)]

    def start(self):
        for thread in self._threads:
            thread.start()
        return self

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S + 60)
        if self.errors:
            raise self.errors[0]

    def submit(self, name, seconds, nodes=1, outcomes=("succeeded",), untouched=False, **more):
        """A job that is acknowledged, whatever it takes. The key makes it one job."""
        spec = self.site.rank_job(name, seconds, nodes, **more)
        job = self.site.patiently("POST", "/v1/jobs", spec, [("Idempotency-Key", name)], PATIENCE_S)["id"]
        with self._lock:
            self.promises.append(Promise(job, name, outcomes, untouched))
        return job

    def check(self):
        """Raises what a client ran into."""
        if self.errors:
            raise self.errors[0]

    def _client(self, number, rng):
        count = 0
        while not self._stop.is_set():
            count += 1
            try:
                self._one("c%d-%d" % (number, count), rng)
            except Exception as error:  # shown by the scenario, not by a thread that nobody hears
                self.errors.append(error)
                return

    def _one(self, name, rng):
        kind = rng.choices(("short", "gang", "urgent", "suspended", "cancelled"), (5, 2, 1, 2, 1))[0]
        if kind == "short":
            self._await_end(self.submit(name, rng.uniform(0, 0.6)))
        elif kind == "gang":
            self._await_end(self.submit(name, rng.uniform(0.2, 1.5), 2))
        elif kind == "urgent":  # others are asked to leave for it
            self._await_end(self.submit(name, rng.uniform(0.1, 0.5), 2, priority="high"))
        elif kind == "suspended":
            job = self.submit(name, 1.5, rng.choice((1, 2)), priority="low")
            await_pause(rng.uniform(0, 0.8))
            self._steer(job, "suspend")
            self.suspensions += 1
            await_pause(rng.uniform(0, 0.5))
            self._steer(job, "resume")
            self._await_end(job)
        else:
            job = self.submit(name, 60, outcomes=("cancelled",), priority="low")
            await_pause(rng.uniform(0, 0.8))
            self._steer(job, "cancel")
            self.cancels += 1
            self._await_end(job)

    def _steer(self, job, verb):
        try:
            self.site.patiently("POST", "/v1/jobs/%s/%s" % (job, verb), {"reason": "chaos"}, (), PATIENCE_S)
        except Refused as refusal:
            if refusal.status != 409:  # it has ended, or had the word before: an answer that was lost
                raise

    def _await_end(self, job):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = self.site.get("/v1/jobs/" + job)
            except Down:
                found = {}
            if found.get("state") == "finished":
                return
            if found.get("state") == "held":  # the suspension came after the resumption that was repeated
                self._steer(job, "resume")
            if time.monotonic() > deadline:
                raise AssertionError("%s is %s after %d s" % (job, found.get("state"), PATIENCE_S))
            pause(0.1)
