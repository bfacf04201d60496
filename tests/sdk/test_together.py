"""The ranks of a node read a checkpoint once, together."""

import glob
import unittest

from support import TempCase, needs_native, run_ranks, start_python

_RANKS = 4
_FLOATS = 24_000_000  # 96 MB

_SAVES = """
import array, tide
run = tide.attach()
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": {"w": array.array("f", [1.5]) * %d}}, local={"n": {"rank": run.rank}})
ck.resume()
ck.save(1)
run.done()
""" % _FLOATS

_RESUMES = """
import array, tide
run = tide.attach()
def read():
    return int(open("/proc/self/io").readline().split()[1])
state, mine = {"w": array.array("f", [0.0]) * %d}, {"rank": -1}
ck = tide.Checkpoint(dir=run.checkpoint_dir, replicated={"m": state}, local={"n": mine}, timeout_s=60)
before = read()
try:
    print(ck.resume(), state["w"] == array.array("f", [1.5]) * len(state["w"]), mine["rank"], read() - before)
except tide.CheckpointError as error:
    print(error)
""" % _FLOATS


@needs_native
class Together(TempCase):
    def setUp(self):
        super().setUp()
        self.env = {"TIDE_CHECKPOINT_DIR": self.path("ck"), "MASTER_ADDR": "h", "MASTER_PORT": "1", "TMPDIR": self.path("")}
        ends = run_ranks(["-c", _SAVES], _RANKS, {**self.env, "TIDE_START": "first", "TIDE_ATTEMPT": "1"})
        self.assertEqual([code for code, _, _ in ends], [0] * _RANKS, ends)

    def resume(self, nodes=1):
        env = {**self.env, "TIDE_START": "second", "TIDE_ATTEMPT": "2", "WORLD_SIZE": str(_RANKS)}
        each = _RANKS // nodes
        ranks = [start_python(["-c", _RESUMES], {**env, "RANK": str(rank), "LOCAL_RANK": str(rank % each),
                                                       "LOCAL_WORLD_SIZE": str(each)}) for rank in range(_RANKS)]
        ends = [rank.communicate(timeout=120) for rank in ranks]
        self.assertEqual([err for _, err in ends], [""] * _RANKS)
        self.assertEqual(glob.glob("/dev/shm/tide-load-*"), [])
        return [out for out, _ in ends]

    def test_a_node_reads_it_once(self):
        for nodes in (1, 2):
            ends = [out.split() for out in self.resume(nodes)]
            self.assertEqual([end[:3] for end in ends], [["1", "True", str(rank)] for rank in range(_RANKS)])
            share = sum(int(end[3]) for end in ends) / (4 * _FLOATS) / nodes
            self.assertGreater(share, 1.0)
            self.assertLess(share, 1.05)


if __name__ == "__main__":
    unittest.main()
