"""docker/ as text: each file is there, each package and flag is one, each name resolves, each image has its libraries.

test_cluster.py starts what is described there, where root and runc are.
"""

import os
import subprocess
import unittest

import compose
import dockerfile
from packages import Packages, libraries

BIN = os.environ.get("TIDE_BIN", os.path.join(dockerfile.ROOT, "build", "release", "bin"))
BUILT = "/tide/build/release/bin/"
# By those of Debian's own packages that need them; no program of ours is linked with one.
NOT_LIBRARIES = {"ca-certificates", "crun", "curl", "postgresql-15", "python3", "skopeo", "umoci", "nodejs", "npm"}
PROGRAMS = {"tide", "tide-scheduler", "tide-api", "tide-agent"}


def dockerfiles():
    found = sorted(os.listdir(dockerfile.ROOT + "/docker"))
    return ["docker/%s/Dockerfile" % name for name in found if os.path.isdir(dockerfile.ROOT + "/docker/" + name)]


def is_tracked(path):
    done = subprocess.run(["git", "ls-files", "--", path], cwd=dockerfile.ROOT, check=True, capture_output=True)
    return done.stdout != b""


class Dockerfiles(unittest.TestCase):
    def test_the_first_stage_is_built_once(self):
        firsts = {path: dockerfile.stages(path)[0] for path in dockerfiles() if path != "docker/database/Dockerfile"}
        self.assertEqual({stage.name for stage in firsts.values()}, {"build"})
        self.assertEqual(len({str(stage.steps) for stage in firsts.values()}), 1, firsts)

    def test_what_is_copied_is_there(self):
        for path in dockerfiles():
            stages = dockerfile.stages(path)
            names = {stage.name for stage in stages}
            for stage in stages:
                for copy in stage.copies:
                    for source in copy.sources:
                        with self.subTest(path, source=source):
                            if copy.stage is None:
                                self.assertTrue(is_tracked(source))
                            else:
                                self.assertIn(copy.stage, names)
                            if source.startswith(BUILT):
                                self.assertTrue(os.path.exists(os.path.join(BIN, source.removeprefix(BUILT))))

    def test_packages_are_of_debian(self):
        named = {name for path in dockerfiles() for stage in dockerfile.stages(path) for name in stage.packages}
        listed = subprocess.run(["apt-cache", "pkgnames"], check=True, capture_output=True, text=True).stdout
        if len(listed.split()) < 20_000:
            self.skipTest("apt has no lists: apt-get update")
        self.assertEqual(named - set(listed.split()) - set(Packages().ids), set())

    def test_an_image_has_the_libraries_of_its_programs_and_no_others(self):
        packages = Packages()
        owners = packages.owners()
        base = packages.with_needs(packages.base)
        for path in dockerfiles():
            stage = dockerfile.stages(path)[-1]
            programs = [source for copy in stage.copies if copy.stage == "build" for source in copy.sources]
            needed = {owners[library] for program in programs
                      for library in libraries(os.path.join(BIN, program.removeprefix(BUILT)))}
            with self.subTest(path):
                self.assertEqual(sorted(needed - base), sorted(set(stage.packages) - NOT_LIBRARIES - base))

    def test_scripts_are_scripts(self):
        for name in ("docker/cli/make-cluster", "docker/database/start"):
            subprocess.run(["sh", "-n", name], cwd=dockerfile.ROOT, check=True)
            self.assertTrue(os.access(os.path.join(dockerfile.ROOT, name), os.X_OK), name)


class Compose(unittest.TestCase):
    def setUp(self):
        self.services, self.volumes = compose.read()

    def test_names_resolve(self):
        used = {volume.name for service in self.services.values() for volume in service.volumes}
        self.assertEqual(used, self.volumes)
        for service in self.services.values():
            self.assertLessEqual(set(service.depends), set(self.services), service.name)

    def test_programs_know_their_flags(self):
        checked = set()
        for service in self.services.values():
            if service.program not in PROGRAMS:
                continue
            checked.add(service.program)
            told = subprocess.run([os.path.join(BIN, service.program), "--help"], check=True, capture_output=True, text=True)
            words = told.stdout.split()
            for flag in service.command + [word for word in " ".join(service.entrypoint).split() if word.startswith("--")]:
                self.assertIn(flag.partition("=")[0], words, service.name)
        self.assertEqual(checked, PROGRAMS)

    def test_who_is_dialled_listens(self):
        listens = {service.flag("--listen") for service in self.services.values()} - {None}
        for service in self.services.values():
            for address in (service.flag("--scheduler") or "").split(","):
                self.assertTrue(not address or address in listens, "%s: %s" % (service.name, address))

    def test_each_node_has_a_certificate(self):
        nodes = [name for name, service in self.services.items() if service.program == "tide-agent"]
        self.assertEqual(self.services["certificates"].command, nodes)
        for name in nodes:
            self.assertEqual(self.services[name].flag("--name"), name)

    def test_keys_are_shared_with_nobody(self):
        """But for the service that makes them, and the schedulers, which stand in for each other."""
        users = {}
        for service in self.services.values():
            for volume in service.volumes:
                users.setdefault(volume.name, set()).add(service.name)
        self.assertEqual(users["authority"], {"certificates"})
        self.assertEqual(users["scheduler"], {"certificates", "scheduler-1", "scheduler-2"})
        for name in ("api", "node-1", "node-2"):
            self.assertEqual(users[name], {"certificates", name})


if __name__ == "__main__":
    unittest.main()
