"""Reads docker/compose.yaml: the services with what the tests need of them; anything else is an error."""

import os

import yaml

import dockerfile

FILE = os.path.join(dockerfile.ROOT, "docker", "compose.yaml")
KNOWN = {"build", "image", "user", "network_mode", "entrypoint", "command", "volumes", "depends_on", "restart", "read_only",
         "tmpfs", "cap_drop", "security_opt", "privileged", "cgroup", "init", "shm_size", "stop_grace_period", "ports", "ulimits",
         "hostname", "profiles", "environment"}


class Volume:
    """NAME:PATH[:ro] of a service."""

    def __init__(self, text):
        self.name, self.path, *mode = text.split(":")
        self.read_only = mode == ["ro"]


class Service:
    def __init__(self, name, fields, images):
        unknown = set(fields) - KNOWN
        if unknown:
            raise ValueError("service %s: no test knows %s" % (name, ", ".join(sorted(unknown))))
        self.name, self.fields = name, fields
        self.dockerfile = images[fields["image"]]
        self.image = dockerfile.stages(self.dockerfile)[-1]
        self.user = fields.get("user", self.image.last("USER", "root"))
        self.entrypoint = [word.replace("$$", "$") for word in fields.get("entrypoint", self.image.entrypoint)]
        self.command = fields.get("command", [])
        self.volumes = [Volume(text) for text in fields.get("volumes", [])]
        self.depends = {other: how["condition"] for other, how in fields.get("depends_on", {}).items()}

    @property
    def program(self):
        """What gets the flags of `command`: the entrypoint, or the first word of its shell's line."""
        return self.entrypoint[2].split()[0] if self.entrypoint[:2] == ["sh", "-c"] else self.entrypoint[0]

    def flag(self, name):
        return next((word.partition("=")[2] for word in self.command if word.startswith(name + "=")), None)

    @property
    def once(self):
        return self.fields.get("restart", "no") == "no"


def read():
    """(services by name, names of the volumes that are declared)."""
    with open(FILE, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    images = {}
    for fields in document["services"].values():
        if "build" in fields:
            if fields["build"]["context"] != "..":
                raise ValueError("a context other than the repository: %s" % fields["build"])
            images[fields["image"]] = fields["build"]["dockerfile"]
    services = {name: Service(name, fields, images) for name, fields in document["services"].items()}
    return services, set(document["volumes"])
