"""Debian's packages as this machine has them: what is installed, what each needs, which files it holds."""

import os
import re
import subprocess

INFO = "/var/lib/dpkg/info/"
FIELDS = "${binary:Package}\t${Package}\t${Essential}\t${Priority}\t${Depends}, ${Pre-Depends}\t${Provides}\t${db:Status-Abbrev}\n"


def _names(text):
    """Lists of alternatives, without versions and architectures."""
    clean = re.sub(r"\([^)]*\)|:any", "", text)
    return [[name.strip() for name in group.split("|")] for group in clean.split(",") if group.strip()]


class Packages:
    def __init__(self):
        listed = subprocess.run(["dpkg-query", "-W", "-f", FIELDS], check=True, capture_output=True, text=True).stdout
        self.ids, self.needs, self.provider, self.base = {}, {}, {}, []
        for line in listed.splitlines():
            ident, name, essential, priority, needs, provides, status = line.split("\t")
            if status.strip() != "ii" or name in self.ids:
                continue
            self.ids[name] = ident
            self.needs[name] = _names(needs)
            for [other] in _names(provides):
                self.provider.setdefault(other, name)
            if essential == "yes" or priority == "required" or name == "apt":
                self.base.append(name)

    def with_needs(self, names):
        """Them and all that they depend on. KeyError: one is not installed here."""
        found, left = set(), list(names)
        while left:
            name = left.pop()
            name = name if name in self.ids else self.provider[name]
            if name not in found:
                found.add(name)
                for group in self.needs[name]:
                    left.append(next(each for each in group if each in self.ids or each in self.provider))
        return found

    def files(self, name):
        for ident in (self.ids[name], name):
            if os.path.exists(INFO + ident + ".list"):
                with open(INFO + ident + ".list", encoding="utf-8") as file:
                    return file.read().splitlines()
        raise KeyError(name)

    def owners(self):
        """{file, as its real path: package}"""
        return {os.path.realpath(path): name for name in self.ids for path in self.files(name)
                if "/lib" in path and ".so" in path and not os.path.islink(path)}


def libraries(program):
    """The files that the loader would take for what a program asks for itself, not for what its libraries ask for."""
    wanted = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^\s+NEEDED\s+(\S+)$", wanted, re.M)
    if not names:
        return []
    loaded = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (\S+) ", loaded, re.M))
    return [os.path.realpath(found[name]) for name in names if name in found]
