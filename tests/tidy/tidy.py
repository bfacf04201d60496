#!/usr/bin/env python3
"""Rules that a compiler does not check. Prints path:line: message; exit 1 when there is any.

tidy.py [ROOT]    ROOT: the repository (the one this file lies in)

Every message names what to use instead. The rules and their reasons: README.md beside this file.
"""

import os
import re
import subprocess
import sys

CPP = (".cc", ".h")
CODE = CPP + (".py", ".ts", ".tsx", ".proto", ".sh")
MARKED = CPP + (".py", ".ts", ".tsx")
SIZED = CPP + (".py", ".ts", ".tsx", ".proto", ".cmake")
SKIPPED_FOLDERS = {".git", "build", "node_modules", "dist", "__pycache__"}
MAX_LINES = 800
MAX_README_LINES = 60

CORES = ("scheduler/core/", "agent/core/", "common/fabric/")


class Ban:
    """One thing that a core must not use. `tests` tells whether its tests must not either."""

    def __init__(self, pattern, name, instead, tests):
        self.pattern = re.compile(pattern)
        self.name = name
        self.instead = instead
        self.tests = tests


CLOCK = "take `Instant now` as an argument"
THREAD = "a core is single-threaded; the owner's loop thread calls it"
RANDOM = "take a seeded Prng (common/base/prng.h) as an argument"
OUTPUT = "return data; the edge (server, cli) prints or stores it"
ADAPTER = "belongs in an adapter's .cc (server/, store/, api/, proto/wire); use plain model types"

# In code without comments and strings.
CODE_BANS = (
    Ban(r"::now\s*\(", "::now(", CLOCK, True),
    Ban(r"\bSystemNow\s*\(", "SystemNow(", CLOCK, True),
    Ban(r"\bMonotonicNanos\s*\(", "MonotonicNanos(", CLOCK, True),
    Ban(r"\bBootNanos\s*\(", "BootNanos(", CLOCK, True),
    Ban(r"(?<![\w.>:])(?:std::|::)?time\s*\(", "time(", CLOCK, True),
    Ban(r"(?<![\w.>:])(?:std::|::)?s?rand\s*\(", "rand(", RANDOM, True),
    Ban(r"\bshuffle\b", "std::shuffle", RANDOM + " and shuffle with Below()", True),
    Ban(r"\bunordered_\w+", "unordered_*",
        "its order differs between machines; use std::map, std::set or a sorted vector", True),
    Ban(r"\bgetenv\b", "getenv", "take the setting as an argument", False),
    Ban(r"\bspdlog\b", "spdlog", "a core logs nothing; return an Explanation", True),
    Ban(r"\bnlohmann\b", "nlohmann", ADAPTER, False),
    Ban(r"\bgrpc\b", "grpc", ADAPTER, True),
)

# In the name between the quotes or brackets of an #include.
INCLUDE_BANS = (
    Ban(r"^thread$", "<thread>", THREAD, True),
    Ban(r"^(shared_)?mutex$", "<mutex>", THREAD, True),
    Ban(r"^atomic$", "<atomic>", THREAD, True),
    Ban(r"^random$", "<random>", RANDOM, True),
    Ban(r"^unordered_", "<unordered_*>", "use std::map, std::set or a sorted vector", True),
    Ban(r"^iostream$", "<iostream>", OUTPUT, False),
    Ban(r"^fstream$", "<fstream>", OUTPUT, False),
    Ban(r"^sys/", "<sys/…>", "system calls belong in a server, store or runtime folder", False),
    Ban(r"^unistd\.h$", "<unistd.h>", "system calls belong in a server, store or runtime folder",
        False),
    Ban(r"^(spdlog|nlohmann|grpc|grpcpp)/", "a library header", ADAPTER, False),
    Ban(r"^tide/v1/", "tide/v1", "use model types; proto/wire converts", True),
)

HEAVY_HEADERS = re.compile(
    r"^(grpc(?:pp)?/|httplib\.h$|nlohmann/(?!json_fwd)|spdlog/|libpq-fe\.h$|sqlite3\.h$|simdjson\.h$|yaml-cpp/"
    r"|tide/v1/\w+\.grpc\.pb\.h$)")

# Folder of the including file → what it may see of the project; the first match counts.
LAYERS = (
    ("common/", ("common/",)),
    ("scheduler/core/model/", ("common/", "scheduler/core/model/")),
    ("scheduler/core/fsm/", ("common/", "scheduler/core/model/", "scheduler/core/fsm/")),
    ("scheduler/core/policy/", ("common/", "scheduler/core/model/", "scheduler/core/policy/")),
    ("scheduler/core/", ("common/", "scheduler/core/")),
    ("scheduler/admin/", ("common/", "scheduler/core/", "scheduler/store/", "scheduler/admin/")),
    ("scheduler/store/", ("common/", "scheduler/core/", "scheduler/store/")),
    ("proto/", ("common/", "scheduler/core/model/", "tide/v1/", "proto/wire/")),
    ("agent/core/", ("common/", "agent/core/")),
    ("agent/server/", ("common/", "agent/", "proto/wire/", "tide/v1/", "scheduler/core/model/")),
    ("agent/main.cc", ("common/", "agent/")),
    ("agent/", ("common/", "agent/")),
    ("bench/", ("common/", "scheduler/core/", "scheduler/store/", "agent/logs/",
                "agent/runtime/", "bench/", "proto/wire/", "sim/", "tide/v1/")),
    ("cli/", ("common/", "cli/", "scheduler/core/model/", "sim/")),
    ("api/", ("common/", "api/", "proto/wire/", "tide/v1/", "scheduler/core/model/")),
    ("sdk/", ("common/", "sdk/", "tide/")),
    ("sim/", ("common/", "scheduler/core/", "scheduler/store/codec.h", "scheduler/store/database.h",
              "scheduler/store/summed_rows.h", "agent/core/", "sim/")),
)
PROJECT_FOLDERS = ("common/", "scheduler/", "agent/", "proto/", "api/", "cli/", "sdk/", "sim/",
                   "bench/", "tests/", "tide/v1/")

# Written in two parts, so that this file passes its own rules.
MARKS = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|XX" + r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:wo" + r"rk|ho" + r"me)/")
SLEEP = re.compile(r"\bsleep_(?:for|until)\b|\busleep\s*\(|\btime\.sleep\b|(?<![\w.])sleep\s*\(\s*\d")
POLL = "tidy: poll"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
CMAKE_SOURCE = re.compile(r"[\w./${}+-]+\.cc\b")


class Tree:
    """The repository's files: their paths, and their text read once."""

    def __init__(self, root):
        self.root = root
        self.paths = sorted(self._list())
        self._texts = {}

    def _list(self):
        try:
            top = subprocess.run(["git", "-C", self.root, "rev-parse", "--show-toplevel"],
                                 capture_output=True, text=True, check=True).stdout.strip()
            if os.path.realpath(top) == os.path.realpath(self.root):
                listed = subprocess.run(
                    ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others",
                     "--exclude-standard"], capture_output=True, check=True).stdout
                names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
                return [n for n in names if os.path.isfile(os.path.join(self.root, n))]
        except (OSError, subprocess.CalledProcessError):
            pass
        return list(self._walk())

    def _walk(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def text(self, path):
        """The file's text, or None when it is not text."""
        if path not in self._texts:
            with open(os.path.join(self.root, path), "rb") as file:
                data = file.read()
            try:
                self._texts[path] = None if b"\0" in data else data.decode("utf-8")
            except UnicodeDecodeError:
                self._texts[path] = None
        return self._texts[path]

    def with_suffix(self, suffixes):
        return [(p, self.text(p)) for p in self.paths
                if p.endswith(suffixes) and self.text(p) is not None]


TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


def code_only(text):
    """C++ without comments and literals; lines keep their numbers. Includes stay."""

    def blank(match):
        token = match.group(0)
        start = text.rfind("\n", 0, match.start()) + 1
        if token.startswith('"') and INCLUDE.match(text[start:match.end()]):
            return token
        if token.startswith("'") and match.start() > 0 and text[match.start() - 1].isalnum():
            return token  # 1'000'000
        return " " + "\n" * token.count("\n")

    return TOKENS.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(text):
    """(line, name) of every #include."""
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def is_test(path):
    name = os.path.basename(path)
    return name.endswith(("_test.cc", "_test.py", ".test.ts", ".test.tsx")) or name.startswith("test_")


def check_core_bans(tree):
    for path, text in tree.with_suffix(CPP):
        if not path.startswith(CORES):
            continue
        bare = code_only(text)
        bans = [ban for ban in CODE_BANS if ban.tests or not is_test(path)]
        code = "\n".join("" if INCLUDE.match(line) else line for line in bare.split("\n"))
        for ban in bans:
            for match in ban.pattern.finditer(code):
                yield path, line_of(code, match.start()), "%s in a core: %s" % (ban.name, ban.instead)
        for number, name in includes(bare):
            for ban in INCLUDE_BANS:
                if ban.pattern.search(name) and (ban.tests or not is_test(path)):
                    yield path, number, "%s in a core: %s" % (ban.name, ban.instead)


def check_include_direction(tree):
    for path, text in tree.with_suffix(CPP):
        for number, name in includes(text):
            server = re.match(r"((?:[\w-]+/)*server/)[^/]+\.h$", name)
            if server and not path.startswith(server.group(1)) and not path.startswith("tests/") \
                    and os.path.basename(path) != "main.cc":
                yield path, number, ("%s is a server's header: nobody outside its folder sees it; "
                                     "move what you need to common/ or to a core" % name)
                continue
            if not name.startswith(PROJECT_FOLDERS) or os.path.basename(path) == "main.cc":
                continue
            for folder, allowed in LAYERS:
                if path.startswith(folder):
                    helper = is_test(path) and "/testing/" in name and name.startswith(CORES)
                    if not name.startswith(allowed) and not helper:
                        yield path, number, ("%s may include only %s, not %s: move the shared part "
                                             "down, or this code up" %
                                             (folder, ", ".join(allowed), name))
                    break


def check_heavy_headers(tree):
    for path, text in tree.with_suffix((".h",)):
        for number, name in includes(text):
            if HEAVY_HEADERS.match(name):
                yield path, number, ("<%s> in a header slows every build: include it in the "
                                     "adapter's .cc and use std types or a forward declaration "
                                     "(nlohmann/json_fwd.hpp) here" % name)


def check_marks(tree):
    for path, text in tree.with_suffix(MARKED):
        for match in MARKS.finditer(text):
            yield path, line_of(text, match.start()), ("leftover %s: do it now, or open an issue and "
                                                       "say in the README what is missing" %
                                                       match.group(1))


def cmake_sources(tree):
    """Paths of the .cc files that some CMakeLists.txt or .cmake names."""
    listed = set()
    for path in tree.paths:
        if os.path.basename(path) != "CMakeLists.txt" and not path.endswith(".cmake"):
            continue
        text = re.sub(r"#[^\n]*", "", tree.text(path) or "")
        for match in CMAKE_SOURCE.finditer(text):
            name = match.group(0)
            from_root = re.sub(r"^\$\{(?:CMAKE|PROJECT|tide)_SOURCE_DIR\}/", "", name)
            if from_root != name:
                listed.add(os.path.normpath(from_root))
                continue
            name = re.sub(r"^\$\{CMAKE_CURRENT_(?:SOURCE|LIST)_DIR\}/", "", name)
            listed.add(os.path.normpath(os.path.join(os.path.dirname(path), name)))
    return listed


def check_listed(tree):
    listed = cmake_sources(tree)
    for path, _ in tree.with_suffix((".cc",)):
        if path in listed:
            continue
        if is_test(path):
            yield path, 1, ("this test is in no CMakeLists.txt and never runs: add it to a "
                            "tide_test(… SOURCES …)")
        else:
            yield path, 1, ("this file is in no CMakeLists.txt: add it to a tide_library or "
                            "tide_program, or remove it")


def check_size(tree):
    for path, text in tree.with_suffix(SIZED):
        lines = text.count("\n")
        if lines > MAX_LINES:
            yield path, MAX_LINES, ("%d lines, at most %d: split it by what changes together" %
                                    (lines, MAX_LINES))


def readme_folders(tree):
    """Top-level folders and folders of agent/ and scheduler/ that hold code, at any depth."""
    folders = set()
    for path in tree.paths:
        parts = path.split("/")
        if len(parts) < 2 or not path.endswith(CODE) or parts[0].startswith("."):
            continue
        folders.add(parts[0])
        if parts[0] in ("agent", "scheduler") and len(parts) > 2:
            folders.add("/".join(parts[:2]))
    return sorted(folders)


def check_readmes(tree):
    paths = set(tree.paths)
    for folder in readme_folders(tree):
        if folder + "/README.md" not in paths:
            yield folder + "/README.md", 1, ("missing: say what the folder is, where to start "
                                             "reading and its rules, in at most %d lines" %
                                             MAX_README_LINES)
    for path, text in tree.with_suffix(("/README.md",)):
        lines = text.count("\n")
        folder = os.path.dirname(path)
        if lines > MAX_README_LINES and folder in readme_folders(tree):
            yield path, MAX_README_LINES, ("%d lines, at most %d: move the details to docs/" %
                                           (lines, MAX_README_LINES))


def check_sleeps(tree):
    for path, text in tree.with_suffix(MARKED):
        if not is_test(path) and not path.startswith("tests/"):
            continue
        if path.startswith("tests/tidy/"):
            continue  # speaks about sleeping
        for number, line in enumerate(text.split("\n"), 1):
            if SLEEP.search(line) and POLL not in line:
                yield path, number, ("a sleep in a test: wait for the condition itself (poll(2) on a "
                                     "descriptor, a condition variable, virtual time); a bounded "
                                     "polling helper says \"%s\" on the line" % POLL)


def check_machine_paths(tree):
    for path in tree.paths:
        text = tree.text(path)
        for match in MACHINE_PATH.finditer(text or ""):
            yield path, line_of(text, match.start()), ("a path of one machine: use a relative path, "
                                                       "an argument or an environment variable")


CHECKS = (check_core_bans, check_include_direction, check_heavy_headers, check_marks, check_listed,
          check_size, check_readmes, check_sleeps, check_machine_paths)


def findings(root):
    tree = Tree(root)
    return sorted({finding for check in CHECKS for finding in check(tree)})


def main(argv):
    if len(argv) > 2:
        print(__doc__)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    root = argv[1] if len(argv) == 2 else os.path.dirname(os.path.dirname(here))
    found = findings(root)
    for path, line, message in found:
        print("%s:%d: %s" % (path, line, message))
    if found:
        print("tidy: %d findings" % len(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
