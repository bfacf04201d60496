"""Tensors on a GPU: by a stand-in for NVIDIA's driver, and on a real GPU where there is one."""

import os
import pathlib
import unittest
from unittest import mock

from support import NATIVE, TempCase, captured_stderr, make_run, needs_native
from tide import Checkpoint
from tide.checkpoint import _native, device

try:
    import torch
except ImportError:
    torch = None

_FAKE = os.path.join(os.path.dirname(os.path.dirname(NATIVE.saver)), "tests", "libtide_fake_cuda.so") if NATIVE else ""
_HAS_GPU = torch is not None and torch.cuda.is_available()


@unittest.skipIf(torch is None, "needs torch")
class Bytes(unittest.TestCase):
    def test_slices_as_a_memoryview_does(self):
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int64):
            tensor = torch.arange(24).to(dtype).reshape(4, 6)
            data = device.DeviceBytes(tensor, 0, 0)
            whole = bytes(data)
            self.assertEqual(len(whole), 24 * tensor.element_size())
            for bounds in (slice(0, 0), slice(3, 17), slice(8, 400), slice(None, None)):
                self.assertEqual(bytes(data[bounds]), whole[bounds], (dtype, bounds))
            self.assertEqual(bytes(data[8:20][4:8]), whole[12:16])
            self.assertEqual(data[8:20].address, tensor.data_ptr() + 8)
        self.assertEqual(bytes(device.DeviceBytes(torch.empty(0, 3), 0, 0)), b"")
        self.assertEqual(bytes(device.DeviceBytes(torch.tensor(7, dtype=torch.uint8), 0, 0)), b"\7")


@unittest.skipIf(torch is None, "needs torch")
class StandIn(TempCase):
    """Main memory plays the device: its addresses are plain ones to the stand-in."""

    def save(self, name, is_on_device=True, state=None):
        place = mock.patch.object(device, "place_of", lambda tensor: (1, 5) if is_on_device else None)
        driver = mock.patch.dict(os.environ, {"TIDE_CUDA_LIBRARY": _FAKE})
        with place, driver:
            ck = Checkpoint(dir=self.path(name), replicated={"m": self.state() if state is None else state}, run=make_run())
            if ck._background._started() is not None:
                ck._background._saver._native._cuda_tried = False
                ck.prepare()
            ck.save(1)
            return ck

    def state(self):
        torch.manual_seed(1)
        return {"w": torch.randn(333, 100), "turned": torch.randn(8, 9).t(), "half": torch.randn(5).half(),
                "one": torch.tensor(3), "none": torch.empty(0), "text": "x"}

    def contents(self, name):
        folder = os.path.join(self.path(name), "s000000000001-0001-d998b860")
        return {entry: pathlib.Path(folder, entry).read_bytes() for entry in sorted(os.listdir(folder))}

    def test_the_checkpoint_is_that_of_main_memory(self):
        self.save("device")
        self.save("main", is_on_device=False)
        self.assertEqual(self.contents("device"), self.contents("main"))

    @needs_native
    def test_slots_are_registered_and_given_back(self):
        ck = self.save("device")
        slots = ck._background._saver.slots
        self.assertEqual([slot._registered[1] for slot in slots._slots], [1, 1])
        taken, _ = slots.take(slots._slots[0].nbytes * 2)  # a larger one takes its place
        self.assertIsNone(taken._registered)
        taken.register(ck._background._saver._native.cuda(), 1)
        self.assertEqual(taken._registered[1], 1)

    @needs_native
    def test_a_driver_that_fails_is_named_and_done_without(self):
        with mock.patch.dict(os.environ, {"TIDE_FAKE_CUDA_FAIL": "cuMemcpyDtoHAsync_v2"}), captured_stderr() as err:
            self.save("device")
        self.assertIn("cuMemcpyDtoHAsync: CUDA_ERROR_INVALID_VALUE", err.getvalue())
        self.save("main", is_on_device=False)
        self.assertEqual(self.contents("device"), self.contents("main"))

    @needs_native
    def test_no_driver_is_named_once(self):
        library = _native.Native(NATIVE._library, NATIVE.saver)
        with mock.patch.dict(os.environ, {"TIDE_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"}), captured_stderr() as err:
            self.assertIsNone(library.cuda())
            self.assertIsNone(library.cuda())
        self.assertEqual(err.getvalue().count("cannot load the CUDA driver"), 1)


@needs_native
@unittest.skipUnless(_HAS_GPU, "skipped: no GPU that torch can use")
class Real(TempCase):
    def test_saves_and_resumes_on_the_device(self):
        state = {"w": torch.randn(4096, 4096, device="cuda"), "turned": torch.randn(64, 32, device="cuda").t()}
        ck = Checkpoint(dir=self.path("ck"), replicated={"m": state}, run=make_run())
        state["w"].mul_(2)  # in the stream when the save comes
        expected = state["w"].cpu()
        ck.save(1, wait=False)
        state["w"].zero_()
        self.assertTrue(ck.flush())
        self.assertIsNotNone(ck._background._saver._native.cuda())
        self.assertEqual(Checkpoint(dir=self.path("ck"), replicated={"m": state}, run=make_run()).resume(), 1)
        self.assertTrue(torch.equal(state["w"].cpu(), expected))


if __name__ == "__main__":
    unittest.main()
