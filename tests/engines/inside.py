#!/usr/bin/env python3
"""The first process in an engine's namespaces: starts the engine and what belongs to it. When it ends, all end. For with-engine.

    inside.py FOLDER make KIND [ARCHIVE]                      fills FOLDER/KIND and stops the engine in good order
    inside.py FOLDER run [--no-network] KIND... -- COMMAND    exit code of the command, 128 + n if signal n ended it
    inside.py FOLDER restart KIND                             for the command: the engine stopped and started

Sockets and process ids are in /run, which is empty and private here, as are the other folders of the machine that engines write to.
"""
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import images

run_folder = pathlib.Path("/run/sandbox-engine")
START_SECONDS = 60
END_SECONDS = 10
PRIVATE = ("/run", "/etc/docker", "/etc/containers/networks", "/opt/containerd", "/var/lib/containers")
OPEN, BY_PASSWORD = "127.0.0.1:5000", "127.0.0.1:5001"
USER, PASSWORD = "reader", "correct horse"
HTPASSWD = "reader:$2b$05$rCmtbJ4Rw/fvbeN5l5zMC.JNRh8wKg8MA/.cUVsNaSHLFd4QgQbyC\n"  # bcrypt of the password


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=START_SECONDS)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def cut_off():
    """Only what is below our own groups shows, and nothing that the engines write outside their folders reaches the machine."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        place, kind, options = line.split(" ")[4], *line.rpartition(" - ")[2].split(" ")[::2]
        if kind in ("cgroup", "cgroup2"):
            subprocess.run(["umount", place], check=True)
            mount("-t", kind, "-o", options, kind, place)
    for folder in PRIVATE:
        os.makedirs(folder, exist_ok=True)  # an engine that is in use has them all
        mount("-t", "tmpfs", "-o", "mode=755", "private", folder)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    run_folder.mkdir()


class Service:
    """A program that runs until we end; it is up once it answers over HTTP. What it has started ends soon after it."""
    def __init__(self, name, log, command, connect, question, started=None):
        self.log, self.command, self.connect, self.question = log, command, connect, question
        self.pid_file = run_folder / f"{name}.pid"
        self.started = started  # another such file

    def start(self):
        with open(self.log, "ab") as log:
            # Engines and what they start write files where they are, and where temporary ones are, that nobody removes.
            process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.log.parent,
                                       env={**os.environ, "TMPDIR": str(self.log.parent)}, start_new_session=True)
        self.pid_file.write_text(f"{process.pid}\n")
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{self.log.read_text(errors='replace')[-3000:]}{self.command[0]} doesn't come up")
            time.sleep(0.005)

    def answers(self):
        connection = self.connect()
        try:
            connection.request("GET", self.question)
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self):
        self.await_end(self.pid_file, signal.SIGTERM)
        if self.started:
            self.await_end(self.started, seconds=END_SECONDS)

    @staticmethod
    def await_end(pid_file, number=None, seconds=None):
        try:
            process = os.pidfd_open(int(pid_file.read_text()))
        except (OSError, ValueError):
            return  # it doesn't run
        if number:
            signal.pidfd_send_signal(process, number)
        select.select([process], [], [], seconds)
        os.close(process)


def write_once(path, text):
    """So that a restart finds what the start was told."""
    if not path.exists():
        path.write_text(text)
    return path


def docker(folder, network=True):
    place = run_folder / "docker.sock"
    bridge = {"bip": "172.30.250.1/24"} if network else {"bridge": "none", "iptables": False}
    settings = write_once(run_folder / "docker.json", json.dumps({
        "data-root": str(folder / "docker"), "exec-root": str(run_folder / "docker"), "pidfile": str(run_folder / "dockerd.pid"),
        "hosts": [f"unix://{place}"], "storage-driver": "overlay2", "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "features": {"buildkit": False}, "shutdown-timeout": 2, "ip6tables": False, **bridge}))
    # A dockerd that finds the containerd of a killed one, which is about to end, starts none, and waits for it in vain.
    return Service("docker", folder / "docker.log", ["dockerd", "--config-file", settings], lambda: UnixConnection(place), "/_ping",
                   started=run_folder / "docker/containerd/containerd.pid")


def podman(folder, _network=True):
    """podman sets the highest limits that there may be, unless told others; where it may not raise its own, no container starts."""
    place, data = run_folder / "podman.sock", folder / "podman"
    write_once(run_folder / "storage.conf", f'''
        [storage]
        driver = "overlay"
        graphroot = "{data}"
        runroot = "{run_folder}/podman"
''')
    write_once(run_folder / "containers.conf", f'''
        [engine]
        cgroup_manager = "cgroupfs"
        events_logger = "file"
        runtime = "runc"
        init_path = "/usr/bin/tini-static"
        [network]
        network_backend = "netavark"
        [containers]
        log_driver = "k8s-file"
        default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
''')
    write_once(run_folder / "registries.conf", "".join(
        f'[[registry]]\nlocation = "{address}"\ninsecure = true\n' for address in (OPEN, BY_PASSWORD)))
    os.environ.pop("CONTAINER_HOST", None)  # at a restart: with it, podman would be a client
    os.environ |= {"CONTAINERS_CONF": f"{run_folder}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{run_folder}/storage.conf",
                   "CONTAINERS_REGISTRIES_CONF": f"{run_folder}/registries.conf"}
    return Service("podman", folder / "podman.log", ["podman", "system", "service", "--time=0", f"unix://{place}"],
                   lambda: UnixConnection(place), "/_ping")


def registry(folder, address):
    name = f"registry-{address.partition(':')[2]}"
    settings = {"version": 0.1, "log": {"level": "warn"}, "http": {"addr": address},
                "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}}}
    if address == BY_PASSWORD:
        path = write_once(run_folder / "htpasswd", HTPASSWD)
        settings["auth"] = {"htpasswd": {"realm": "engines", "path": str(path)}}
    path = write_once(run_folder / f"{name}.json", json.dumps(settings))
    return Service(name, folder / "registry.log", ["docker-registry", "serve", path],
                   lambda: http.client.HTTPConnection(address, timeout=START_SECONDS), "/v2/")


ENGINES = {"docker": docker, "podman": podman}


def make(folder, kind, archive=None):
    if kind == "registry":
        service = registry(folder, OPEN)
        service.start()
        images.Registry(OPEN).fill()
    else:
        service = ENGINES[kind](folder)
        service.start()
        connection = service.connect()
        with open(archive, "rb") as file:
            connection.request("POST", "/v1.41/images/load", file, {"Content-Length": str(os.path.getsize(archive)),
                                                                    "Content-Type": "application/x-tar"})
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        if answer.status != 200 or '"error"' in said:
            sys.exit(f"{kind} doesn't take the images: {said[-2000:]}")
    service.stop()
    if kind == "podman":
        shutil.rmtree(folder / "podman/libpod")  # a data base that insists on the place where it was made
    return 0


def wait_for(pid):
    """As the first process we are also the parent of whatever loses its own."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def environment(folder, kind, service, has_registry):
    restart = write_once(run_folder / "restart", f"#!/bin/sh\nexec '{sys.executable}' '{__file__}' '{folder}' restart {kind}\n")
    restart.chmod(0o755)
    told = {name: value for name, value in os.environ.items() if name not in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST")}
    told |= {"SANDBOX_ENGINE": kind, "SANDBOX_ENGINE_PID_FILE": str(service.pid_file), "SANDBOX_ENGINE_RESTART": str(restart),
             "DOCKER_HOST" if kind == "docker" else "CONTAINER_HOST": f"unix://{run_folder}/{kind}.sock"}
    if has_registry:
        told |= {"SANDBOX_REGISTRY": OPEN, "SANDBOX_REGISTRY_AUTH": BY_PASSWORD,
                 "SANDBOX_REGISTRY_USER": USER, "SANDBOX_REGISTRY_PASSWORD": PASSWORD}
    return told


def run(folder, arguments):
    end = arguments.index("--")
    kind, *others = arguments[:end]
    network = "--no-network" not in others
    registries = [registry(folder, address) for address in (OPEN, BY_PASSWORD)] if "registry" in others else []
    engine = ENGINES[kind](folder, network)
    for service in (*registries, engine):
        service.start()
    command = arguments[end + 1:]
    try:
        return wait_for(os.posix_spawnp(command[0], command, environment(folder, kind, engine, bool(registries))))
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def main():
    folder, mode, *arguments = sys.argv[1:]
    folder = pathlib.Path(folder)
    if mode == "restart":
        service = ENGINES[arguments[0]](folder)
        service.stop()
        service.start()
        return 0
    cut_off()
    return run(folder, arguments) if mode == "run" else make(folder, *arguments)


sys.exit(main())
