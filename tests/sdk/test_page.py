"""The page's layout, and what attach, tick and exit leave in it."""

import json
import math
import os
import re
import socket
import struct
import threading
import unittest

from support import ROOT, TempCase, make_page, make_run, start_python, wait_until
from tide import _page, _run, _socket
from tide._errors import TideError


try:
    import torch
except ImportError:
    torch = None


class Layout(unittest.TestCase):
    def test_fields_are_those_of_the_contract(self):
        with open(os.path.join(ROOT, "docs", "rank-protocol.md"), encoding="utf-8") as source:
            text = source.read()
        rows = re.findall(r"^\| (\d+) \| (u32|i64|f64) \| (?:agent|rank) \| (?:`(\w+)`|(\w+))", text, re.M)
        contract = {named or plain: (int(offset), {"u32": "I", "i64": "q", "f64": "d"}[kind])
                    for offset, kind, named, plain in rows}
        self.assertEqual(contract, _page.FIELDS)

    def test_bytes_land_where_the_table_says(self):
        for name, (offset, code) in _page.FIELDS.items():
            with self.subTest(name):
                buffer = bytearray(_page.PAGE_BYTES)
                setattr(_page.Page(buffer), name, 77)
                expected = bytearray(_page.PAGE_BYTES)
                struct.pack_into("<" + code, expected, offset, 77)
                self.assertEqual(buffer, expected)

    def test_lines_have_one_writer(self):
        for name, (offset, _) in _page.FIELDS.items():
            self.assertEqual(offset < 64, name in ("magic", "version", *_page.Order._fields), name)


class Attach(TempCase):
    def test_attach_and_tick(self):
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        self.assertEqual((agent.step, agent.staged_step, agent.saved_step, agent.total_steps), (-1, -1, -1, -1))
        self.assertEqual((agent.pid, agent.phase), (os.getpid(), _page.PHASE_TRAINING))
        self.assertTrue(math.isnan(agent.loss))
        run.request(4, loss=0.25, total=9)
        self.assertEqual((agent.step, agent.total_steps, agent.loss), (4, 9, 0.25))
        run.request(5)
        self.assertGreater(agent.step_ns, 0)
        run.suspended("s000000000005-0001")
        self.assertEqual((agent.saved_step, agent.phase, agent.ack_seq), (5, _page.PHASE_SAVED, 0))

    def test_the_silence_of_an_evaluation_is_over_before_its_phase_is(self):
        """Seen beside the phase of training it would be a hang."""
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        run.request(1)
        ticked = agent.heartbeat
        seen = []
        restart = run.restart_step_clock

        def restart_and_look():
            restart()
            seen.append((agent.phase, agent.heartbeat > ticked))
        run.restart_step_clock = restart_and_look
        with run.evaluating():
            self.assertEqual((agent.phase, agent.heartbeat), (_page.PHASE_EVALUATING, ticked))
        self.assertEqual(seen, [(_page.PHASE_EVALUATING, True)])
        self.assertEqual(agent.phase, _page.PHASE_TRAINING)

    def test_what_a_rank_computes_is_said(self):
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        self.assertEqual(agent.compute_ns, 0)
        run.compute_time(0.25)
        self.assertEqual(agent.compute_ns, 250_000_000)

    def test_the_first_loss_that_is_no_number_is_noted(self):
        nan, inf = math.nan, math.inf
        for losses, expected in (  # from step 1; (bad_step, bad_kind, good_step, loss_step)
                ([0.5, 0.4, None], (0, 0, 0, 1)),
                ([0.5, nan, nan, 0.4], (2, _page.BAD_NAN, 1, 1)),
                ([inf, nan], (1, _page.BAD_INFINITE, 0, 0)),
                ([0.5, 0.4, -inf], (3, _page.BAD_INFINITE, 1, 1)),
                (["not a number", 0.5, nan], (3, _page.BAD_NAN, 2, 2))):
            with self.subTest(losses=losses):
                agent = make_page(self.path("page"))
                run = make_run(TIDE_PAGE=self.path("page"))
                for step, loss in enumerate(losses, 1):
                    if step == 2 and losses[0] == "not a number":
                        run._loss_due_ns = 0
                    run.request(step, loss=loss)
                self.assertEqual((agent.bad_step, agent.bad_kind, agent.good_step, agent.loss_step), expected)

    @unittest.skipIf(torch is None, "needs torch")
    def test_losses_may_be_tensors(self):
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        for step, loss in enumerate((torch.tensor(0.5), torch.tensor([0.25]), torch.tensor(math.nan), torch.tensor(0.125)), 1):
            run._loss_due_ns = 0
            run.request(step, loss=loss)
            self.assertEqual(agent.loss_step, (1, 2, 2, 4)[step - 1])
        self.assertEqual((agent.bad_step, agent.good_step, agent.loss), (3, 2, 0.125))
        run._loss_due_ns = 0
        run.request(5, loss=torch.zeros(2))  # no scalar: not known, which is no fault
        self.assertEqual((agent.bad_step, agent.loss_step, math.isnan(agent.loss)), (3, 4, True))

    def test_the_last_loss_is_shown(self):
        """Losses in between are shown now and then only: reading one costs more than the rest of a tick."""
        for end in ("suspended", "done"):
            agent = make_page(self.path(end))
            run = make_run(TIDE_PAGE=self.path(end))
            run.request(1, loss=4.0)
            self.assertEqual(agent.loss, 4.0)
            for step in range(2, 50):
                run.request(step, loss=1 / step)
            run.suspended("s") if end == "suspended" else run.done()
            self.assertEqual(agent.loss, 1 / 49)

    def test_a_loss_that_cannot_be_read_keeps_nobody(self):
        class Overwritten:
            def __float__(self):
                raise RuntimeError("accessing tensor output of CUDAGraphs that has been overwritten")

        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        run.request(1, loss=1.0)
        run.request(2, loss=Overwritten())
        run.suspended("s")
        self.assertTrue(math.isnan(agent.loss))
        self.assertEqual(agent.phase, _page.PHASE_SAVED)

    def test_stop_needs_no_agreement_and_notice_shows_it(self):
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        self.assertIsNone(run.notice())
        agent.order, agent.seq = _page.ORDER_STOP, 1
        self.assertEqual(run.notice().order, "stop")
        self.assertEqual(run.request(1).kind, "stop")

    def test_unsafe_step_publishes_only(self):
        agent = make_page(self.path("page"))
        run = make_run(TIDE_PAGE=self.path("page"))
        agent.order, agent.state, agent.seq = _page.ORDER_SUSPEND, _page.STATE_COMMITTED, 1
        self.assertIsNone(run.request(3, safe=False))
        self.assertEqual(agent.step, 3)
        self.assertEqual(run.request(4).kind, "suspend")

    def test_bad_pages_are_named(self):
        for content, expected in ((None, "cannot open"), (b"short", "shorter"), (bytes(4096), "version")):
            if content is not None:
                with open(self.path("page"), "wb") as out:
                    out.write(content)
            with self.assertRaisesRegex(TideError, expected):
                make_run(TIDE_PAGE=self.path("page"))
        with self.assertRaisesRegex(TideError, "RANK='x'"):
            _run.Run({"RANK": "x"})

    def test_exit_code_and_flush(self):
        process = start_python(["-c", "import tide; r = tide.attach(); print('last words', end=''); r.exit()"], {})
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out, err), (85, "last words", ""))

    def test_neither_torch_nor_numpy_is_imported(self):
        code = "import tide, sys; tide.rng().state_dict(); print([m for m in ('torch', 'numpy') if m in sys.modules])"
        self.assertEqual(start_python(["-c", code], {}).communicate(timeout=30)[0].strip(), "[]")


class Reports(TempCase):
    def serve(self, path: str, lines: list) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()

        def work() -> None:
            try:
                while True:
                    connection = server.accept()[0]
                    with connection, connection.makefile("r") as source:
                        for line in source:
                            lines.append(json.loads(line))
                            connection.sendall(b'{"ok":true}\n')
                            if lines[-1]["t"] == "done":
                                break
            except OSError:
                return

        threading.Thread(target=work, daemon=True).start()
        return server

    def test_reports_and_reconnect(self):
        lines = []
        reporter = _socket.Reporter(self.path("agent"), 3)
        self.addCleanup(reporter.close)
        self.assertFalse(reporter.send("done", step=1))
        server = self.serve(self.path("agent"), lines)
        self.addCleanup(server.close)
        self.assertTrue(reporter.send("suspended", step=2, checkpoint="c", await_reply=True))
        self.assertTrue(reporter.send("done", step=2, await_reply=True))
        wait_until(lambda: len(lines) == 3, "three lines")
        self.assertEqual([line["t"] for line in lines], ["hello", "suspended", "done"])
        self.assertEqual(lines[0], {"t": "hello", "rank": 3, "pid": os.getpid(), "version": 1})
        # The server has closed the connection; sooner or later a report finds out and the next one connects again.
        wait_until(lambda: reporter.send("progress", step=3) and "progress" in [line["t"] for line in lines], "reconnect")

    def test_a_silent_agent_costs_little_time(self):
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(self.path("agent"))
        server.listen(1)
        reporter = _socket.Reporter(self.path("agent"), 0)
        self.addCleanup(reporter.close)
        longest = 0.0
        for step in range(40):
            started = _socket.time.monotonic()
            reporter.send("progress", step=step, metrics={"text": "x" * 60000})
            longest = max(longest, _socket.time.monotonic() - started)
        self.assertGreater(reporter.dropped, 0)
        self.assertLess(longest, 0.5)  # 50 ms by design; the rest is for a busy machine


if __name__ == "__main__":
    unittest.main()
