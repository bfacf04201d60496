"""Root file systems as the Dockerfiles describe them, without a registry: Debian's files are those of this machine's
packages, Tide's are those of the build; steps that are neither run in the root, as they stand.

What it cannot show: that `apt-get install` and the stages that compile run in Debian's own image.
"""

import functools
import glob
import os
import shutil
import stat
import subprocess

import dockerfile
from packages import Packages

SLIM = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Effects of installing packages, as far as they matter here.
AFTER = {"postgresql-common": "useradd --system --home-dir /var/lib/postgresql postgres"
                              " && install -d -o postgres -g postgres /var/lib/postgresql"}
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


real = functools.lru_cache(maxsize=None)(os.path.realpath)


class Builder:
    """Makes roots in one folder. Their unchanging files are links to one copy of each."""

    def __init__(self, folder, build):
        self.folder, self.build = folder, build
        self.pool = os.path.join(folder, "pool")
        self.packages = Packages()
        self.base = self.packages.with_needs(self.packages.base)
        self.made = {}

    def root(self, path):
        """The root of the image by the Dockerfile at `path`."""
        if path not in self.made:
            self.made[path] = self._make(dockerfile.stages(path), os.path.join(self.folder, path.split("/")[1]))
        return self.made[path]

    def _make(self, stages, root):
        image = stages[-1]
        if image.base != "debian:12-slim":
            raise ValueError("no test can make %s" % image.base)
        os.makedirs(root)
        for name in MERGED:
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(root, name))
        os.chmod(root, 0o755)
        have = set(self.base)
        self._unpack(have, root)
        for name in ("passwd", "group"):
            shutil.copy("/usr/share/base-passwd/%s.master" % name, "%s/etc/%s" % (root, name))
        shutil.copy("/etc/nsswitch.conf", root + "/etc")
        for name in ("hosts", "hostname", "resolv.conf", "ld.so.cache"):
            with open("%s/etc/%s" % (root, name), "wb"):
                pass
        for word, text in image.steps:
            if word == "RUN" and (names := dockerfile.INSTALL.findall(text)):
                new = self.packages.with_needs(names[0].split()) - have
                have |= new
                self._unpack(new, root)
                for name in sorted(new & set(AFTER)):
                    self._run(root, AFTER[name])
            elif word == "RUN":
                self._run(root, text)
            elif word == "COPY":
                self._copy(dockerfile.Copy(text), root)
        self._run(root, "ldconfig")
        return root

    def _run(self, root, text):
        subprocess.run(["chroot", root, "sh", "-ec", text], check=True, env=ENV, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)

    def _unpack(self, names, root):
        for name in sorted(names):
            for path in self.packages.files(name):
                if not path.startswith(SLIM) and path != "/.":
                    folder, _, last = path.rpartition("/")
                    self._place(os.path.join(real(folder or "/"), last), root)

    def _place(self, path, root):
        """Puts a file of this machine into the root."""
        target = root + path
        if os.path.lexists(target) or not os.path.lexists(path):
            return
        info = os.lstat(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(path), target)
        elif stat.S_ISDIR(info.st_mode):
            os.mkdir(target)
            os.chown(target, info.st_uid, info.st_gid)
            os.chmod(target, stat.S_IMODE(info.st_mode))
        elif path.startswith(("/etc/", "/var/")):
            shutil.copy2(path, target)
        else:
            kept = self.pool + path
            if not os.path.exists(kept):
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                shutil.copy2(path, kept)
                os.chown(kept, info.st_uid, info.st_gid)
                os.chmod(kept, stat.S_IMODE(info.st_mode))
            os.link(kept, target)

    def _copy(self, copy, root):
        for source in copy.sources:
            found = self._built(copy.stage, source)
            if os.path.isdir(found):
                shutil.copytree(found, root + copy.target, dirs_exist_ok=True, symlinks=True)
            elif copy.target.endswith("/"):
                shutil.copy(found, root + copy.target)
            else:
                shutil.copy(found, root + copy.target)

    def _built(self, stage, path):
        """What a COPY takes, as it is on this machine."""
        if stage is None:
            return os.path.join(dockerfile.ROOT, path)
        if stage == "web":
            return os.path.join(dockerfile.ROOT, os.path.relpath(path, "/tide"))
        if stage == "sdk":
            return os.path.join(self._sdk(), os.path.relpath(path, "/tide/build/sdk"))
        return os.path.join(self.build, os.path.relpath(path, "/tide/build/release"))

    def _sdk(self):
        """What the stage of that name does, by its own words."""
        target = os.path.join(self.folder, "sdk")
        if not glob.glob(target + "/*"):
            [stage] = [each for each in dockerfile.stages("docker/agent/Dockerfile") if each.name == "sdk"]
            [words] = [text.split() for text in stage.texts("RUN")]
            words = [self.build if word == "build/release" else target if word == "/tide/build/sdk" else word for word in words]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return target
