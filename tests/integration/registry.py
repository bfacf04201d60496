"""A registry of images on loopback, plain HTTP, that serves OCI layouts made by umoci; and those layouts."""

import contextlib
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TOOLS = ("/usr/bin/skopeo", "/usr/bin/umoci")


def why_not():
    """Empty where images can be tested."""
    if os.geteuid() != 0:
        return "images need root"
    missing = [tool for tool in (*TOOLS, "/usr/sbin/runc") if not os.access(tool, os.X_OK)]
    return "images need " + ", ".join(missing) if missing else ""


def umoci(*args):
    subprocess.run(["/usr/bin/umoci", *args], check=True, capture_output=True)


def libraries(program):
    """What the loader of a program opens."""
    lines = subprocess.run(["/usr/bin/ldd", program], check=True, capture_output=True, text=True).stdout.split()
    return {word for word in lines if word.startswith("/")}


def make_layout(layout, tag, programs, files, links=()):
    """An image of the node's own programs, with their libraries, of files (path to text) and links (path and where to)."""
    root = layout + ".root"
    copies = {path for program in programs for path in ({program} | libraries(program))}
    for path in copies:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    for path, text in files.items():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(text)
    for path, where in links:
        os.symlink(where, root + path)
    if not os.path.exists(layout):
        umoci("init", "--layout", layout)
    umoci("new", "--image", layout + ":" + tag)
    for top in sorted(os.listdir(root)):
        umoci("insert", "--image", layout + ":" + tag, os.path.join(root, top), "/" + top)
    umoci("config", "--image", layout + ":" + tag, "--config.env", "FROM_IMAGE=yes",
          "--config.env", "PATH=/usr/bin:/bin")
    shutil.rmtree(root)
    for folder, _, names in os.walk(layout):
        os.chmod(folder, 0o755)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)
    return digest(layout, tag)


def entry(layout, tag):
    with open(layout + "/index.json", encoding="utf-8") as file:
        for each in json.load(file)["manifests"]:
            if each["annotations"]["org.opencontainers.image.ref.name"] == tag:
                return each
    raise KeyError(tag)


def digest(layout, tag):
    return entry(layout, tag)["digest"]


def blob(layout, name):
    return os.path.join(layout, "blobs/sha256", name.partition(":")[2])


def layers(layout, tag):
    with open(blob(layout, digest(layout, tag)), encoding="utf-8") as file:
        return [layer["digest"] for layer in json.load(file)["layers"]]


class Registry:
    """Serves `layout` as the repository `name`. `gate` holds blobs back while it is not set."""

    def __init__(self, layout, name="team/train"):
        self.gate = threading.Event()
        self.gate.set()
        self.asked = []  # paths
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass

            def answer(self, status, kind, body):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if kind == MANIFEST:
                    self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(body).hexdigest())
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_GET(self):
                registry.asked.append(self.path)
                base = "/v2/" + name
                try:
                    if self.path == "/v2/":
                        self.answer(200, "application/json", b"{}")
                    elif self.path.startswith(base + "/manifests/"):
                        what = self.path.rpartition("/")[2]
                        found = what if what.startswith("sha256:") else digest(layout, what)
                        with open(blob(layout, found), "rb") as file:
                            self.answer(200, MANIFEST, file.read())
                    elif self.path.startswith(base + "/blobs/"):
                        with open(blob(layout, self.path.rpartition("/")[2]), "rb") as file:
                            body = file.read()
                        registry.gate.wait(60)
                        self.answer(200, "application/octet-stream", body)
                    else:
                        raise KeyError(self.path)
                except (KeyError, FileNotFoundError):
                    code = "MANIFEST_UNKNOWN" if "/manifests/" in self.path else "BLOB_UNKNOWN"
                    text = json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]})
                    self.answer(404, "application/json", text.encode())

            do_HEAD = do_GET

            def handle(self):
                with contextlib.suppress(ConnectionError):  # the one who asked was ended
                    super().handle()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = "127.0.0.1:%d" % self.server.server_port
        self.name = "%s/%s" % (self.host, name)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
