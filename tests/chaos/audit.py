"""What must hold after every scenario: each acknowledged job is there once and came to its end; no rank ran twice."""

import collections
import os

from harness import describe, until

# Why an attempt of a job that nobody's hardware hurt may have ended.
ORDERED = {"succeeded", "preempted", "left", "held", "cancelled"}


class Life:
    """One start of one rank."""

    def __init__(self, pid, attempt, started_ns, node):
        self.pid = pid
        self.attempt = attempt
        self.started_ns = started_ns
        self.node = node
        self.ended_ns = None  # None: runs, or was killed
        self.how = "killed"


def read_lives(site):
    """({(job, rank): [Life]}, [what the ranks found wrong])."""
    lives = collections.defaultdict(list)
    wrong = []
    for name in sorted(os.listdir(site.records)):
        job, _, rank = name.partition(".")
        with open(os.path.join(site.records, name), encoding="ascii") as file:
            for line in file:
                word, pid, attempt, at, more = line.split()
                if word == "overlap":
                    wrong.append("rank %s of %s ran twice at once: attempt %s, pid %s" % (rank, job, attempt, pid))
                elif word == "start":
                    lives[job, rank].append(Life(int(pid), int(attempt), int(at), more))
                else:
                    lives[job, rank][-1].ended_ns = int(at)
                    lives[job, rank][-1].how = word
    return lives, wrong


def all_jobs(site):
    """Every job that the API lists, by id."""
    found = {}
    cursor = ""
    while True:
        page = site.patiently("GET", "/v1/jobs?all=true&limit=1000" + ("&cursor=" + cursor if cursor else ""))
        for job in page["items"]:
            found[job["id"]] = job
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def check_ranks(jobs, lives):
    """Of each rank, no attempt ran twice, the attempts came in order, and each is known."""
    wrong = []
    for (job, rank), found in lives.items():
        epochs = [life.attempt for life in found]
        known = {a["epoch"] for a in jobs[job]["attempts"]} if job in jobs else set()
        if sorted(set(epochs)) != epochs:
            wrong.append("rank %s of %s: attempts started %s" % (rank, job, epochs))
        if not set(epochs) <= known:
            wrong.append("rank %s of %s ran in attempts %s, known are %s" % (rank, job, epochs, sorted(known)))
        for one, next_one in zip(found, found[1:]):
            if one.ended_ns and one.ended_ns > next_one.started_ns:
                wrong.append("rank %s of %s: attempt %d ran into %d" % (rank, job, one.attempt, next_one.attempt))
    return wrong


def check_promise(promise, job, lives, reasons):
    if job is None:
        return ["%s (%s) was acknowledged and is lost" % (promise.job, promise.name)]
    wrong = []
    if job["spec"]["name"] != promise.name:
        wrong.append("%s is %s, acknowledged was %s" % (promise.job, job["spec"]["name"], promise.name))
    if job["outcome"] not in promise.outcomes:
        wrong.append("%s: %s" % (promise.job, describe(job)))
    ends = {a["end_reason"] for a in job["attempts"]}
    if not ends <= reasons:
        wrong.append("%s was touched: %s" % (promise.job, describe(job)))
    mine = [found for (owner, _), found in lives.items() if owner == promise.job]
    if promise.untouched and (len(job["attempts"]) != 1 or any(len(found) != 1 for found in mine)):
        wrong.append("%s had to run undisturbed: %s" % (promise.job, describe(job)))
    if job["outcome"] == "succeeded" and not (mine and all(found[-1].how == "end" for found in mine)):
        wrong.append("%s succeeded, and its ranks did not: %s" % (promise.job, [[n.how for n in f] for f in mine]))
    return wrong


def describe_codes(codes):
    return "schedulers ended with " + (", ".join("%d (%d times)" % each for each in sorted(codes.items())) or "nothing")


def audit(site, load, reasons=frozenset()):
    """Raises with everything that is wrong; else counts of jobs, starts and attempts.

    reasons: further words why an attempt may have ended, for scenarios that hurt nodes.
    """
    until(180, "all jobs to end", lambda: all(
        job["state"] == "finished" for job in all_jobs(site).values()))
    jobs = all_jobs(site)
    lives, wrong = read_lives(site)
    names = collections.Counter(job["spec"]["name"] for job in jobs.values())
    wrong += ["%s is there %d times" % (name, n) for name, n in names.items() if n != 1]
    for promise in load.promises:
        wrong += check_promise(promise, jobs.get(promise.job), lives, ORDERED | set(reasons))
    wrong += check_ranks(jobs, lives)
    if wrong:
        raise AssertionError("%d findings:\n  " % len(wrong) + "\n  ".join(wrong[:20]))
    starts = sum(len(found) for found in lives.values())
    again = sum(len(job["attempts"]) - 1 for job in jobs.values() if len(job["attempts"]) > 1)
    return ("%d jobs acknowledged, 0 lost, 0 twice; %d ranks started, 0 ran twice; %d attempts after a first; "
            "%d suspensions asked for, %d cancellations") % (
                len(load.promises), starts, again, load.suspensions, load.cancels)
