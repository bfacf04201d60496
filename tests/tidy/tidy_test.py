#!/usr/bin/env python3
"""Each rule of tidy.py fires on a small tree, and stays quiet on its right counterpart."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tidy  # noqa: E402

CORE = "scheduler/core/x.cc"
MARK = "TO" + "DO"
MACHINE = "/wo" + "rk/main"


def run(files, git=False):
    """Findings of a tree that holds `files` (path → text)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        if git:
            subprocess.run(["git", "init", "-q", root], check=True)
        return tidy.findings(root)


def messages(files, only, git=False):
    """Messages about paths that begin with `only`, without those on READMEs and file lists."""
    return [m for p, _, m in run(files, git) if p.startswith(only) and "CMakeLists" not in m
            and not p.endswith("README.md")]


class CoreBans(unittest.TestCase):
    def assert_fires(self, text, word, path=CORE):
        found = messages({path: text + "\n"}, path)
        self.assertTrue(any(word in m for m in found), "%r gave %r" % (text, found))
        self.assertTrue(all(":" in m for m in found), "names no replacement: %r" % found)

    def assert_quiet(self, text, path=CORE):
        self.assertEqual(messages({path: text + "\n"}, path), [], text)

    def test_each_ban_fires_in_both_cores(self):
        for path in (CORE, "agent/core/y.h"):
            for text, word in (
                    ("auto t = std::chrono::system_clock::now();", "::now("),
                    ("Instant n = SystemNow();", "SystemNow("),
                    ("int64_t n = MonotonicNanos();", "MonotonicNanos("),
                    ("int t = time(nullptr);", "time("),
                    ("int t = std::time(nullptr);", "time("),
                    ("int r = rand();", "rand("),
                    ("int r = ::rand();", "rand("),
                    ("std::shuffle(a, b, g);", "std::shuffle"),
                    ("std::ranges::shuffle(a, g);", "std::shuffle"),
                    ("std::unordered_map<int, int> m;", "unordered_"),
                    ("const char* e = getenv(\"A\");", "getenv"),
                    ("spdlog::info(1);", "spdlog"),
                    ("nlohmann::json j;", "nlohmann"),
                    ("grpc::Status s;", "grpc"),
                    ("#include <thread>", "<thread>"),
                    ("#include <mutex>", "<mutex>"),
                    ("#include <shared_mutex>", "<mutex>"),
                    ("#include <atomic>", "<atomic>"),
                    ("#include <random>", "<random>"),
                    ("#include <unordered_set>", "unordered_"),
                    ("#include <iostream>", "<iostream>"),
                    ("#include <fstream>", "<fstream>"),
                    ("#include <sys/stat.h>", "<sys/"),
                    ("#include <unistd.h>", "<unistd.h>"),
                    ("#include <spdlog/spdlog.h>", "library header"),
                    ("#include \"tide/v1/types.pb.h\"", "tide/v1")):
                with self.subTest(path=path, text=text):
                    self.assert_fires(text, word, path)

    def test_the_page_of_the_agent_is_no_exception(self):
        self.assert_fires("#include <atomic>", "<atomic>", "agent/core/page.h")

    def test_comments_literals_and_longer_names_are_quiet(self):
        for text in ("// no <thread>, no rand()", "/* time(0)\n getenv */", 'auto s = "rand()";',
                     "int64_t x = run_time(1);", "auto t = job.time();", "int x = strand(1);",
                     "int big = 1'000'000; int other = 2'000;", 'auto r = R"(rand() " getenv)";',
                     "#include <map>"):
            with self.subTest(text=text):
                self.assert_quiet(text)

    def test_elsewhere_they_are_allowed(self):
        self.assert_quiet("#include <thread>\nint x = rand();", "scheduler/server/x.cc")

    def test_tests_of_a_core_may_read_files_but_not_clocks(self):
        path = "scheduler/core/x_test.cc"
        self.assert_quiet("#include <fstream>\nauto e = getenv(\"A\");", path)
        self.assert_fires("auto n = SystemNow();", "SystemNow(", path)

    def test_the_line_is_right(self):
        found = run({CORE: "/* a\n b */\nint a;\nint r = rand();\n"})
        self.assertIn(4, [line for path, line, m in found if "rand(" in m])


class Includes(unittest.TestCase):
    def refused(self, path, name):
        return any("include" in m or "server's header" in m
                   for m in messages({path: '#include "%s"\n' % name}, path))

    def test_direction(self):
        for path, name, refused in (
                ("common/base/a.cc", "common/base/b.h", False),
                ("common/base/a.cc", "scheduler/core/model/job.h", True),
                ("scheduler/core/model/a.cc", "scheduler/core/model/b.h", False),
                ("scheduler/core/model/a.cc", "scheduler/core/fsm/b.h", True),
                ("scheduler/core/fsm/a.cc", "scheduler/core/model/b.h", False),
                ("scheduler/core/fsm/a.cc", "scheduler/core/policy/b.h", True),
                ("scheduler/core/policy/a.cc", "scheduler/store/b.h", True),
                ("scheduler/core/policy/a.cc", "scheduler/core/testing/b.h", True),
                ("scheduler/core/policy/a_test.cc", "scheduler/core/testing/b.h", False),
                ("scheduler/core/a.cc", "scheduler/core/policy/b.h", False),
                ("scheduler/core/a.cc", "scheduler/store/b.h", True),
                ("scheduler/store/a.cc", "scheduler/core/apply.h", False),
                ("scheduler/store/a.cc", "agent/core/b.h", True),
                ("scheduler/server/a.cc", "scheduler/store/b.h", False),
                ("scheduler/server/a.cc", "scheduler/server/b.h", False),
                ("agent/core/a.cc", "common/base/b.h", False),
                ("agent/core/a.cc", "agent/health/b.h", True),
                ("agent/core/a.cc", "scheduler/core/model/b.h", True),
                ("agent/health/a.cc", "scheduler/core/model/b.h", True),
                ("agent/server/a.cc", "agent/health/b.h", False),
                ("agent/server/a.cc", "scheduler/core/apply.h", True),
                ("proto/wire/a.cc", "scheduler/core/model/b.h", False),
                ("proto/wire/a.cc", "tide/v1/types.pb.h", False),
                ("proto/wire/a.cc", "scheduler/core/apply.h", True),
                ("cli/a.cc", "tide/v1/types.pb.h", True),
                ("api/http/a.cc", "tide/v1/types.pb.h", False)):
            with self.subTest(path=path, name=name):
                self.assertEqual(self.refused(path, name), refused)

    def test_nobody_sees_a_server(self):
        self.assertTrue(self.refused("agent/health/a.cc", "agent/server/loop.h"))
        self.assertTrue(self.refused("sim/a.cc", "scheduler/server/loop.h"))
        self.assertTrue(self.refused("agent/server/a.cc", "scheduler/server/loop.h"))
        self.assertFalse(self.refused("agent/main.cc", "agent/server/loop.h"))
        self.assertFalse(self.refused("agent/server/a.cc", "agent/server/loop.h"))

    def test_heavy_headers(self):
        for name in ("grpcpp/grpcpp.h", "grpc/grpc.h", "httplib.h", "nlohmann/json.hpp",
                     "spdlog/spdlog.h", "libpq-fe.h", "sqlite3.h", "yaml-cpp/yaml.h"):
            with self.subTest(name=name):
                text = "#include <%s>\n" % name
                self.assertEqual(len(messages({"api/http/a.h": text}, "api/")), 1)
                self.assertEqual(messages({"api/http/a.cc": text}, "api/"), [])
        self.assertEqual(messages({"api/a.h": "#include <nlohmann/json_fwd.hpp>\n"}, "api/"), [])


class Files(unittest.TestCase):
    def test_marks(self):
        for mark in (MARK, "FIX" + "ME", "XX" + "X"):
            for path in ("cli/a.cc", "sdk/a.py", "web/src/a.ts", "web/src/a.tsx"):
                with self.subTest(mark=mark, path=path):
                    self.assertEqual(len(messages({path: "x  %s: later\n" % mark}, path)), 1)
        self.assertEqual(messages({"cli/a.cc": "auto t = \"tide-XX" + "XXXX\";\n"}, "cli/"), [])

    def test_every_source_is_listed(self):
        unlisted = run({"cli/a.cc": "", "cli/a_test.cc": "", "cli/CMakeLists.txt": "# a.cc\n"})
        texts = [m for p, _, m in unlisted if p.endswith(".cc")]
        self.assertEqual(len(texts), 2)
        self.assertTrue(any("never runs" in m for m in texts))
        listed = run({
            "cli/a.cc": "", "cli/sub/b.cc": "", "cli/a_test.cc": "", "sdk/c.cc": "",
            "cli/CMakeLists.txt": "tide_test(t SOURCES a_test.cc a.cc sub/b.cc)\n"
                                  "x(${CMAKE_SOURCE_DIR}/sdk/c.cc)\n"})
        self.assertEqual([p for p, _, _ in listed if p.endswith(".cc")], [])

    def test_size(self):
        self.assertEqual(messages({"cli/a.py": "x\n" * 800}, "cli/"), [])
        self.assertEqual(len(messages({"cli/a.py": "x\n" * 801}, "cli/")), 1)

    def test_readmes(self):
        code = {"cli/a.py": "", "agent/health/a.py": "", "docs/a.md": "", "scheduler/core/fsm/b.py": ""}
        self.assertEqual([p for p, _, _ in run(code)],
                         ["agent/README.md", "agent/health/README.md", "cli/README.md",
                          "scheduler/README.md", "scheduler/core/README.md"])
        self.assertEqual(run({"cli/a.py": "", "cli/README.md": "x\n" * 60}), [])
        self.assertEqual(len(run({"cli/a.py": "", "cli/README.md": "x\n" * 61})), 1)

    def test_sleeps(self):
        cpp = "std::this_thread::sleep_for(x);"
        for path, text in (("cli/a_test.cc", cpp), ("cli/a_test.cc", "usleep(5);"),
                           ("tests/e2e/a.py", "time.sleep(1)"), ("sdk/python/test_a.py", "time.sleep(1)")):
            with self.subTest(path=path, text=text):
                self.assertEqual(len(messages({path: text + "\n"}, path)), 1)
                self.assertEqual(messages({path: text + "  // tidy: poll\n"}, path), [])
        self.assertEqual(messages({"cli/a.cc": cpp + "\n"}, "cli/"), [])

    def test_machine_paths(self):
        for text in (MACHINE, "cd " + MACHINE, '"/ho' + 'me/me/x"', "file:/" + "/" + MACHINE):
            with self.subTest(text=text):
                self.assertEqual(len(messages({"docs/a.md": text + "\n"}, "docs/")), 1)
        for text in ("/api/wo" + "rk/x", "$TMP/wo" + "rk/x", "./ho" + "me/x", "/workspace/x"):
            with self.subTest(text=text):
                self.assertEqual(messages({"docs/a.md": text + "\n"}, "docs/"), [])

    def test_binary_files_are_left_alone(self):
        self.assertEqual(run({"docs/a.png": b"\x89PNG\0" + MACHINE.encode()}), [])


class Listing(unittest.TestCase):
    def test_git_ignores_are_respected_and_untracked_files_seen(self):
        files = {".gitignore": "/out/\n", "out/a.cc": MARK + "\n", "docs/b.py": MARK + "\n"}
        self.assertEqual({p for p, _, m in run(files, git=True) if "leftover" in m}, {"docs/b.py"})
        self.assertEqual({p for p, _, m in run(files) if "leftover" in m}, {"docs/b.py", "out/a.cc"})

    def test_built_folders_are_skipped_without_git(self):
        self.assertEqual(run({"build/a.cc": "", "web/node_modules/b.ts": MARK}), [])


class Program(unittest.TestCase):
    def test_exit_status_and_speed(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy.py")
        with tempfile.TemporaryDirectory() as root:
            clean = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
            self.assertEqual((clean.returncode, clean.stdout), (0, ""))
            os.mkdir(os.path.join(root, "cli"))
            body = "int F%d() { return 1; }  // plain\n"
            for i in range(1000):
                with open(os.path.join(root, "cli", "f%d.cc" % i), "w", encoding="utf-8") as file:
                    file.writelines(body % k for k in range(150))
            start = time.monotonic()
            found = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
            self.assertLess(time.monotonic() - start, 10)
            self.assertEqual(found.returncode, 1)
            self.assertIn("tidy: 1001 findings", found.stdout)


if __name__ == "__main__":
    unittest.main()
