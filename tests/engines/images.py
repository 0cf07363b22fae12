"""The images that tests of a container engine use, made from Debian packages of this machine's own release.

    build/engines/debian.tar    a small Debian tree: bash, coreutils, procps and what is essential; made once by mmdebstrap
    write_archive()             all images in one archive, as `docker load` and `podman load` read it
    Registry                    puts an image into a registry, by the registry's own API
"""
import gzip
import hashlib
import io
import json
import pathlib
import random
import subprocess
import tarfile
import urllib.request

BUSYBOX = "/bin/busybox"
BORN = "2024-01-01T00:00:00Z"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = {"Env": [PATH], "Cmd": ["/bin/sh"]}
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")

# Names of each image, its layer, its configuration, its architecture. docker.io is where a name without a host belongs.
IMAGES = [
    (["docker.io/sandbox-test/debian:1", "docker.io/library/debian:bookworm-slim"], "debian",
     {"Env": [PATH], "Cmd": ["bash"]}, "amd64"),
    (["docker.io/sandbox-test/busybox:1"], "busybox", SHELL, "amd64"),
    (["docker.io/sandbox-test/notail:1"], "notail", SHELL, "amd64"),  # a shell, but no tail to keep a container alive with
    (["docker.io/sandbox-test/noshell:1"], "noshell", {"Env": [PATH], "Cmd": ["/bin/sleep", "1000000"]}, "amd64"),
    (["docker.io/sandbox-test/user:1"], "busybox", {**SHELL, "User": "1000:1000", "WorkingDir": "/home/user"}, "amd64"),
    (["docker.io/sandbox-test/exits:1"], "busybox", {**SHELL, "Entrypoint": ["/bin/true"]}, "amd64"),
    (["docker.io/sandbox-test/arm64:1"], "busybox", SHELL, "arm64"),  # only called so: what is in it runs here
]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def make_debian(path):
    """Takes the mirrors from apt's own configuration. Raises CalledProcessError with what mmdebstrap said."""
    suite = next(line.partition("=")[2].strip('"') for line in pathlib.Path("/etc/os-release").read_text().splitlines()
                 if line.startswith("VERSION_CODENAME="))
    mirrors = subprocess.run(["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
                              "Created-By: Packages", "Origin: Debian", "Component: main"],
                             check=True, capture_output=True, text=True).stdout
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    new = path.with_suffix(".new.tar")
    subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=essential", "--include=procps", "--skip=output/dev",
                    *options, suite, new, "-"], check=True, input=mirrors, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    new.rename(path)


class Layer:
    """A root file system of static programs, as a tar archive in memory."""
    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=tarfile.GNU_FORMAT)

    def add(self, name, kind, mode=0o755, content=b"", target="", owner=0):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.size, entry.linkname, entry.uid, entry.gid = kind, mode, len(content), target, owner, owner
        self.tar.addfile(entry, io.BytesIO(content))

    def folder(self, name, mode=0o755, owner=0):
        self.add(name, tarfile.DIRTYPE, mode, owner=owner)

    def file(self, name, content, mode=0o644):
        self.add(name, tarfile.REGTYPE, mode, content)

    def bytes(self):
        self.tar.close()
        return self.data.getvalue()


def busybox_layer(called):
    """busybox under some of its names, or under all (None)."""
    program = pathlib.Path(BUSYBOX).read_bytes()
    if called is None:
        listed = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
        called = ["busybox", *(name for name in listed if name != "busybox")]
    layer = Layer()
    for name in ("bin", "dev", "etc", "home", "proc", "sys", "usr", "usr/bin", "var"):
        layer.folder(name)
    for name in ("tmp", "var/tmp"):
        layer.folder(name, 0o1777)
    layer.folder("root", 0o700)
    layer.folder("home/user", 0o700, owner=1000)
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    layer.file("etc/group", b"root:x:0:\nuser:x:1000:\n")
    layer.file("bin/" + called[0], program, 0o755)
    for name in called[1:]:
        layer.add("bin/" + name, tarfile.LNKTYPE, target="bin/" + called[0])
    return layer.bytes()


def configuration(layer_digests, config, architecture):
    return json.dumps({"architecture": architecture, "os": "linux", "created": BORN, "config": config,
                       "rootfs": {"type": "layers", "diff_ids": layer_digests},
                       "history": [{"created": BORN} for _ in layer_digests]}).encode()


def write_archive(debian, path):
    layers = {"busybox": busybox_layer(None), "notail": busybox_layer(["sh", "cat", "echo", "ls", "mkdir", "rm", "sleep", "true"]),
              "noshell": busybox_layer(["sleep", "true"])}
    digests = {name: digest(data) for name, data in layers.items()}
    with open(debian, "rb") as file:
        digests["debian"] = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    manifest = []
    with tarfile.open(path, "w") as archive:
        def add(name, data):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        archive.add(debian, "debian.tar")
        for name, data in layers.items():
            add(f"{name}.tar", data)
        for names, layer, config, architecture in IMAGES:
            data = configuration([digests[layer]], config, architecture)
            name = digest(data).partition(":")[2] + ".json"
            add(name, data)
            manifest.append({"Config": name, "RepoTags": names, "Layers": [f"{layer}.tar"]})
        add("manifest.json", json.dumps(manifest).encode())


class Registry:
    """sandbox-test/busybox:1 for two architectures, in three layers of which two don't compress: 8 MiB to pull."""
    DOCKER = "application/vnd.docker."
    MANIFEST = DOCKER + "distribution.manifest.v2+json"
    LIST = DOCKER + "distribution.manifest.list.v2+json"

    def __init__(self, address, name="sandbox-test/busybox"):
        self.url = f"http://{address}/v2/{name}"

    def request(self, method, url, data=b"", kind="application/octet-stream"):
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers

    def put_blob(self, data, kind):
        place = self.request("POST", f"{self.url}/blobs/uploads/")["Location"]
        self.request("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest(data)}", data)
        return {"mediaType": self.DOCKER + kind, "size": len(data), "digest": digest(data)}

    def put_manifest(self, reference, kind, **content):
        data = json.dumps({"schemaVersion": 2, "mediaType": kind, **content}).encode()
        self.request("PUT", f"{self.url}/manifests/{reference or digest(data)}", data, kind)
        return {"mediaType": kind, "size": len(data), "digest": digest(data)}

    def fill(self):
        contents = [busybox_layer(None)]
        for number in range(2):
            layer = Layer()
            layer.file(f"pulled-{number}", random.Random(number).randbytes(4 << 20))
            contents.append(layer.bytes())
        digests = [digest(data) for data in contents]
        layers = [self.put_blob(gzip.compress(data, 1, mtime=0), "image.rootfs.diff.tar.gzip") for data in contents]
        manifests = []
        for architecture in ("amd64", "arm64"):
            config = self.put_blob(configuration(digests, SHELL, architecture), "container.image.v1+json")
            manifest = self.put_manifest(None, self.MANIFEST, config=config, layers=layers)
            manifests.append({**manifest, "platform": {"architecture": architecture, "os": "linux"}})
        self.put_manifest("1", self.LIST, manifests=manifests)
