"""The commands of docs/guide/users-and-projects.md, in their order, by the people that the guide names.

A block marked sh begins with `# as NAME`; each NAME has a home of its own, and all have one folder. A command ends with 0,
or as `# exit N` behind it says.
"""

import os
import re
import subprocess
import unittest

from harness import BIN, ROOT
from site_of_daemons import Site

GUIDE = ROOT + "/docs/guide/users-and-projects.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
EXIT = re.compile(r"^(?P<command>.*\S)\s+# exit (?P<code>\d+)$", re.M)


def blocks():
    """(who, script) in order."""
    with open(GUIDE, encoding="utf-8") as file:
        for text in BLOCK.findall(file.read()):
            head, _, script = text.partition("\n")
            if not head.startswith("# as "):
                raise AssertionError("a block without `# as NAME`: " + text)
            yield head.removeprefix("# as "), script


def checked(script):
    """As it is, but for commands that are to be refused."""
    return EXIT.sub(lambda match: "code=0; %s || code=$?; [ $code = %s ]" % match.groups(), script)


class GuideTest(unittest.TestCase):
    def setUp(self):
        # The uid of ann's record is on no node that does not run as root; one account for all is on each.
        self.site = Site("process", {"olga": "operator"},
                         agent=["--job-user", "65534:65534"] if os.geteuid() == 0 else ())
        self.addCleanup(self.site.close)
        self.site.start()
        with open(self.site.work + "/admin-token", "w", encoding="ascii") as file:
            file.write(self.site.tokens["first-admin"] + "\n")

    def run_as(self, who, script):
        home = "%s/home-%s" % (self.site.base, who)
        os.makedirs(home, exist_ok=True)
        env = {key: value for key, value in self.site.env.items() if key != "TIDE_TOKEN"}
        env.update(HOME=home, XDG_CONFIG_HOME=home + "/.config", PATH=BIN + ":" + env["PATH"])
        return subprocess.run(["bash", "-euxo", "pipefail", "-c", checked(script)], env=env, cwd=self.site.work,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def test_every_command(self):
        seen = {}
        for who, script in blocks():
            done = self.run_as(who, script)
            self.assertEqual(done.returncode, 0, "as %s:\n%s\n%s" % (who, done.stdout, done.stderr))
            seen[who] = seen.get(who, "") + done.stdout
        self.assertEqual(set(seen), {"admin", "ada", "ann", "bob"})
        self.assertIn("first-admin (admin)", seen["admin"])
        self.assertIn("hello", seen["ann"])
        self.assertIn("/#code=tide_", seen["ann"])
        self.assertIn('"operation":"logs.read"', seen["ada"])
        self.assertTrue(any(entry["owner"] == "ann" and entry["user"] == "bob" and entry["outcome"] == "done"
                            for entry in self.site.audit("logs.read")))
