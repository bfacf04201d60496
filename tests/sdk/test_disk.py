"""Disks that are full, over quota, read-only or gone: one clear line, earlier checkpoints intact, training goes on."""

import array
import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import threading
import time
import unittest

from support import NATIVE, TempCase, captured_stderr, checkpoints_in, lead, make_run, name_of, release, start_python, wait_until
from tide import Checkpoint, CheckpointError, DamagedError
from tide.checkpoint import lease, store
from tide.checkpoint.reader import Reader

_PAGE = 4096
# btrfs: limits of what a subvolume, or the whole file system, may hold.
_QUOTA_CTL, _QGROUP_LIMIT = 0xC0109428, 0x8030942B
_QUOTA_ENABLE, _LIMIT_REFERENCED = 1, 1
_TOP_SUBVOLUME = 5

_OUTGROWS_ITS_LIMIT = """
import array, os, resource, tide
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
block = array.array("d", [7.0]) * 1000
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": {"w": block}}, every=1)
for step in (1, 2, 3):
    ck.tick(step)
    ck.flush()
    block.extend([0.0] * 200_000)
print(ck.failed_saves, "failed", flush=True)
"""

_MAY_NOT_WRITE = """
import array, os, tide
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": {"w": array.array("d", [0.0]) * 1000}}, every=1)
print("from", ck.resume(), flush=True)
ck.tick(2)
ck.flush()
print(ck.failed_saves, "failed", flush=True)
"""


def mount(test, *arguments):
    """Mounts on arguments[-1] until the test is over, or skips the test."""
    done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        test.skipTest(f"cannot mount: {done.stderr.strip()}")
    test.addCleanup(subprocess.run, ["umount", "-l", arguments[-1]], check=True)


class Disk(TempCase):
    """One rank in this process, saving at every tick."""

    def setUp(self):
        super().setUp()
        self.folder = self.path("ck")
        self.block = array.array("d", [1.0]) * 1000
        self.failed = 0
        os.mkdir(self.folder)

    def start(self):
        self.ck = Checkpoint(dir=self.folder, replicated={"m": {"w": self.block}}, every=1, keep=9, run=make_run())
        self.save(1)

    def tick(self, step):
        """Trains a step and saves it. Returns what was said."""
        self.block[0] = step
        with captured_stderr() as err:
            self.assertFalse(self.ck.tick(step), "training goes on")
            self.assertTrue(self.ck.flush())
        return err.getvalue()

    def save(self, step):
        self.assertEqual(self.tick(step), "")
        self.assertEqual(self.committed()[-1], step)
        self.assertEqual(self.ck._run.page.failed_saves, 0)

    def refuse(self, step, *words):
        """A save that fails, in one line."""
        before = self.committed()
        said = self.tick(step)
        for word in (*words, f"step {step}", "earlier checkpoints are intact", "training goes on"):
            self.assertIn(word, said)
        self.assertEqual(said.count("\n"), 1, said)
        self.failed += 1
        page = self.ck._run.page  # what `tide ps` shows
        self.assertGreater(page.failed_saves, 0)
        self.assertIn(os.strerror(page.save_errno), said)
        self.assertEqual((self.ck.failed_saves, self.committed()), (self.failed, before))

    def committed(self):
        """Their steps; each is read, and holds what was saved."""
        steps = []
        for item in store.scan(self.folder):
            if item.has_manifest:
                with Reader(item.path) as reader:
                    reader.verify()
                    self.assertEqual(reader.read("replicated/m.w")[:8], struct.pack("d", item.step))
                steps.append(item.step)
        return steps

    def only_committed(self):
        self.assertEqual(checkpoints_in(self.folder), [os.path.basename(item.path) for item in store.scan(self.folder)])
        self.assertTrue(all(item.has_manifest for item in store.scan(self.folder)), "what failed goes with the next commit")


_KEEPS_ONE = """
import os, tide
ck = tide.Checkpoint(dir=os.environ["TIDE_CHECKPOINT_DIR"], replicated={"m": {"n": 1}}, every=1, keep=1)
print("from", ck.resume())
for step in range(2, 6):
    ck.tick(step)
    ck.flush()
print(ck.failed_saves)
"""


@unittest.skipIf(os.geteuid() != 0, "needs root, to be somebody else")
class Foreign(TempCase):
    def test_what_belongs_to_somebody_else_stays_and_that_is_said_once(self):
        folder = self.path("ck")
        Checkpoint(dir=folder, replicated={"m": {"n": 1}}, run=make_run()).save(1)
        os.chmod(os.path.dirname(folder), 0o755)
        os.chmod(folder, 0o777)
        release(folder)
        os.remove(os.path.join(folder, lease.FILE))
        process = start_python(["-c", _KEEPS_ONE], {"TIDE_CHECKPOINT_DIR": folder}, user=65534, cwd="/")
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, "from 1\n0\n"), err)
        self.assertEqual([item.step for item in store.scan(folder)], [1, 5])
        self.assertEqual(err.count("old checkpoints stay: "), 1, err)
        self.assertIn("Permission denied", err)


class Full(Disk):
    def test_full_disk(self):
        mount(self, "-t", "tmpfs", "-o", "size=8m", "tide-test", self.folder)
        self.start()
        self.block.extend([0.0] * 2_000_000)
        self.refuse(2, "No space left on device")
        del self.block[1000:]
        self.save(3)
        self.only_committed()

    def test_room_for_some_of_it(self):
        """Full after any page: of the data, of the part, of the manifest."""
        mount(self, "-t", "tmpfs", "-o", "size=1m", "tide-test", self.folder)
        self.start()
        step = 1
        for pages in range(8):
            with open(self.path("ck", "filler"), "wb", buffering=0) as filler:
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(bytes(_PAGE))
                filler.truncate(filler.tell() - pages * _PAGE)
            step += 1
            if pages < 3:  # the data alone has as many
                self.refuse(step, "No space left on device")
            else:
                fits = self.fits(step)
            os.unlink(self.path("ck", "filler"))
            step += 1
            self.save(step)
            self.only_committed()
        self.assertTrue(fits)

    def fits(self, step):
        """True if a save finds the room. What it says where it does not is checked."""
        said = self.tick(step)
        if said:
            self.failed += 1
            self.assertIn("No space left on device", said)
            self.assertEqual(said.count("\n"), 1, said)
        return not said

    def test_no_more_files(self):
        mount(self, "-t", "tmpfs", "-o", "size=1m,nr_inodes=14", "tide-test", self.folder)
        self.start()
        step = 1
        for files in range(4):
            held = []
            with contextlib.suppress(OSError):
                while True:
                    held.append(self.path("ck", f"held-{len(held)}"))
                    open(held[-1], "x").close()
            held.pop()
            for path in held[:files]:
                os.unlink(path)
            step += 1
            self.fits(step)
            for path in held[files:]:
                os.unlink(path)
            step += 1
            self.save(step)
            self.only_committed()
            for item in store.scan(self.folder)[:-1]:
                shutil.rmtree(item.path)
        self.assertGreater(self.failed, 1)

    def test_read_only(self):
        mount(self, "-t", "tmpfs", "-o", "size=8m", "tide-test", self.folder)
        self.start()
        release(self.folder)  # else the mount is busy
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)
        self.refuse(2, "Read-only file system")
        self.assertEqual(Checkpoint(dir=self.folder, replicated={"m": {"w": self.block}}, run=make_run(attempt=2)).resume(), 1)
        subprocess.run(["mount", "-o", "remount,rw", self.folder], check=True)
        self.save(3)
        self.only_committed()

    def test_over_quota(self):
        image = self.path("image")
        with open(image, "wb") as out:
            out.truncate(128 << 20)
        if shutil.which("mkfs.btrfs") is None:
            self.skipTest("needs mkfs.btrfs")
        subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
        mount(self, "-o", "loop", image, self.folder)
        disk = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(disk, _QUOTA_CTL, bytearray(struct.pack("QQ", _QUOTA_ENABLE, 0)))
            self.start()
            # id of the group; flags, most bytes referenced, most exclusive, two reservations
            limit = struct.pack("QQQQQQ", _TOP_SUBVOLUME, _LIMIT_REFERENCED, 1 << 20, 0, 0, 0)
            fcntl.ioctl(disk, _QGROUP_LIMIT, limit)
        finally:
            os.close(disk)
        self.block.extend([0.0] * 1_000_000)
        self.refuse(2, "Disk quota exceeded")
        del self.block[1000:]
        self.save(3)
        self.only_committed()

    def test_largest_file(self):
        """RLIMIT_FSIZE: staging memory is a file to it, too, so that no saver is ever ended by the signal."""
        child = start_python(["-c", _OUTGROWS_ITS_LIMIT], {"TIDE_CHECKPOINT_DIR": self.folder})
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, out), (0, "2 failed\n"), err)
        for step in (2, 3):
            self.assertRegex(err, f"training goes on: cannot save step {step} .*File too large")
        self.assertEqual(err.count("\n"), 2 + (NATIVE is not None), err)
        self.assertEqual([item.step for item in store.scan(self.folder) if item.has_manifest], [1])


class Gone(Disk):
    def test_folder_that_was_removed(self):
        self.start()
        shutil.rmtree(self.folder)
        self.save(2)
        self.assertEqual(self.committed(), [2])

    def test_folder_that_another_thing_took_the_place_of(self):
        self.start()
        os.rename(self.folder, self.path("away"))
        with open(self.folder, "x"):
            pass
        said = self.tick(2)
        self.assertIn(self.folder, said)
        self.assertIn("give another dir=", said)
        self.assertEqual((self.ck.failed_saves, said.count("\n")), (1, 1))
        os.unlink(self.folder)
        os.rename(self.path("away"), self.folder)
        self.assertEqual(self.committed(), [1])
        self.save(3)
        self.only_committed()

    def test_folder_that_goes_during_saves(self):
        """Whatever is removed under a save: it fails, is whole, or is known to be damaged; the next one is whole."""
        self.start()
        for step in range(2, 40, 2):
            self.block[0] = step
            with captured_stderr() as err:
                self.assertFalse(self.ck.tick(step))
                shutil.rmtree(self.folder, ignore_errors=True)
                self.assertTrue(self.ck.flush())
            self.assertLessEqual(err.getvalue().count("\n"), 1)
            # What is removed between a data file's end and the commit is damage like any other.
            with contextlib.suppress(DamagedError):
                self.committed()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.save(step + 1)

    def test_folder_that_goes_while_a_rank_is_waited_for(self):
        """Nobody waits for ranks that wrote into a folder that is gone."""
        for rank, words in ((0, "part-00000 is gone"), (1, "was removed while")):
            ck = Checkpoint(dir=self.folder, replicated={"m": {"w": self.block}}, run=make_run(rank, 2))
            lead(self.folder, 2)
            self.assertEqual(ck.resume(), 0)
            part = self.path("ck", "s000000000002-0001-d998b860", f"part-{rank:05d}")

            def remove(part=part):
                wait_until(lambda: os.path.exists(part), "the part of this rank")
                os.rename(self.folder, self.path(f"away-{rank}"))

            remover = threading.Thread(target=remove)
            remover.start()
            began = time.monotonic()
            # The part is there a moment before it is durable: the folder may also go in between.
            with self.assertRaisesRegex(CheckpointError, words + "|cannot save step 2 .*No such file"):
                ck.save(2)
            remover.join()
            self.assertLess(time.monotonic() - began, 30)
            shutil.rmtree(self.folder, ignore_errors=True)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to start a program of somebody else")
    def test_folder_of_somebody_else(self):
        self.start()
        os.chmod(self.dir, 0o755)
        child = start_python(["-c", _MAY_NOT_WRITE], {"TIDE_CHECKPOINT_DIR": self.folder, "TIDE_ATTEMPT": "2"}, user=65534, cwd="/")
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, out), (0, "from 1\n1 failed\n"), err)
        self.assertRegex(err, r"^tide: save 1 failed, training goes on: cannot save step 2\b.*Permission denied.*\n$")
        self.assertEqual(self.committed(), [1])


class Foreign(Disk):
    def test_file_named_as_a_checkpoint(self):
        self.start()
        with open(self.path("ck", "s000000000002-0001-d998b860"), "w", encoding="ascii") as out:
            out.write("notes")
        said = self.tick(2)
        self.assertEqual((self.ck.failed_saves, said.count("\n")), (1, 1), said)
        self.assertIn("s000000000002-0001-d998b860", said)
        self.save(3)
        self.assertEqual(self.resumed(), (3, ""))
        with open(self.path("ck", "s000000000002-0001-d998b860"), encoding="ascii") as notes:
            self.assertEqual(notes.read(), "notes")

    def test_folder_named_as_a_data_file_and_as_a_part(self):
        self.start()
        for name in ("d00000.safetensors", "part-00000", "MANIFEST.json"):
            step = self.committed()[-1] + 1
            os.makedirs(self.path("ck", name_of(step), name))
            said = self.tick(step)
            if name == "d00000.safetensors":
                self.assertEqual(said, "", "another name is free")
                continue
            self.assertEqual(said.count("\n"), 1, f"{name}: {said!r}")
            self.assertIn(name, said)
            shutil.rmtree(self.path("ck", name_of(step)))
            self.save(step + 1)

    def test_files_among_checkpoints(self):
        self.start()
        for name in ("notes.txt", "s000000000009-0001.tar", "MANIFEST.json"):
            with open(self.path("ck", name), "w", encoding="ascii") as out:
                out.write("{}")
        os.symlink("nowhere", self.path("ck", "s000000000008-0001-d998b860"))
        with open(self.path("ck", "s000000000001-0001-d998b860", "extra"), "w", encoding="ascii") as out:
            out.write("of a user")
        self.save(2)
        self.assertEqual(self.resumed(), (2, ""))
        self.assertEqual(len(checkpoints_in(self.folder)), 6)

    def resumed(self):
        with captured_stderr() as err:
            ck = Checkpoint(dir=self.folder, replicated={"m": {"w": self.block}}, run=make_run(attempt=2))
            return ck.resume(), err.getvalue()


class Unfit(Disk):
    def test_nothing_is_touched(self):
        """Wrong shapes, missing tensors and objects: an error that names them, and the folder stays as it is."""
        self.start()
        before = self.state()
        for objects, word in (({"m": {"w": array.array("d", [0.0])}}, "m.w"), ({"m": {"w": array.array("f", [0.0]) * 1000}}, "m.w"),
                              ({"m": [self.block]}, "'m' is a list"), ({"other": {"w": self.block}}, "other")):
            with self.assertRaisesRegex(CheckpointError, word) as caught:
                Checkpoint(dir=self.folder, replicated=objects, run=make_run(attempt=2)).resume()
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(self.state(), before)
        self.save(2)

    def state(self):
        return sorted((path, tuple(sorted(names))) for path, _, names in os.walk(self.folder))


if __name__ == "__main__":
    unittest.main()
