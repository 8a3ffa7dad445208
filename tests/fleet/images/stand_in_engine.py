"""Docker and podman for tests: notes down what it was asked, and runs workers as a daemon would.

A container is a process in a session of its own that a process of the "daemon" waits for: ending
the client does not end it. It sees the variables that it was given and no others.
"""

import json
import os
import signal
import sys
from pathlib import Path

PLACE = Path(os.environ["STAND_IN_DIR"])
WITHOUT_VALUE = {"--rm", "--interactive", "--init", "--detach"}


def main(words: list[str]) -> int:
    verb = words[0]
    if verb == "--version":
        print(os.environ.get("STAND_IN_VERSION", f"{Path(sys.argv[0]).name} version 5"))
        return 0
    said = sys.stdin.read() if verb == "login" else ""
    note = {"engine": Path(sys.argv[0]).name, "argv": words, "stdin": said}
    with (PLACE / "calls.jsonl").open("a") as file:
        file.write(json.dumps(note) + "\n")
    if os.environ.get("STAND_IN_DOWN"):
        return fail(
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"
        )
    if verb == "image":
        verb = f"image {words[1]}"
    return VERBS[verb](words)


def fail(text: str, code: int = 1) -> int:
    print(f"{text}\n\nRun 'docker {sys.argv[1]} --help' for more information", file=sys.stderr)
    return code


def images() -> dict[str, str]:
    file = PLACE / "images.json"
    return json.loads(file.read_text()) if file.exists() else {}


def keep(name: str, id: str) -> int:
    (PLACE / "images.json").write_text(json.dumps({**images(), name: id}))
    return 0


def info(words: list[str]) -> int:
    print(json.dumps(["name=seccomp,profile=builtin"]))
    return 0


def inspect(words: list[str]) -> int:
    if words[2] not in images():
        print("[]")
        return fail(f"Error response from daemon: No such image: {words[2]}")
    labels = {"skipjack.version": os.environ.get("STAND_IN_HOLDS", "")}
    print(json.dumps([{"Id": images()[words[2]], "Config": {"Labels": labels}}]))
    return 0


def listing(words: list[str]) -> int:
    for name, id in images().items():
        if words[-1] in (name, "label=skipjack.version"):
            print(f"{name if ':' in name else name + ':latest'} {id}")
    return 0


def build(words: list[str]) -> int:
    context = Path(words[-1])
    files = [str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()]
    (PLACE / "context.json").write_text(json.dumps(files))
    (PLACE / "Dockerfile").write_bytes((context / "Dockerfile").read_bytes())
    (PLACE / "buildkit.txt").write_text(os.environ.get("DOCKER_BUILDKIT", ""))
    if os.environ.get("STAND_IN_NO_BUILD"):
        return fail("manifest for rocm/dev:9.9 not found")
    print("Step 1/9 : FROM rocm")
    return keep(words[words.index("--tag") + 1], "sha256:" + "b" * 64)


def tag(words: list[str]) -> int:
    if words[1] not in images():
        return fail(f"Error response from daemon: No such image: {words[1]}")
    return keep(words[2], images()[words[1]])


def push(words: list[str]) -> int:
    return 0


def pull(words: list[str]) -> int:
    if os.environ.get("STAND_IN_MACHINE") == "full":
        return fail("failed to register layer: no space left on device")
    return keep(words[1], "sha256:" + "a" * 64)


def login(words: list[str]) -> int:
    if (PLACE / "calls.jsonl").read_text().splitlines()[-1].count("correct horse"):
        return 0
    said = json.loads((PLACE / "calls.jsonl").read_text().splitlines()[-1])["stdin"].strip()
    return fail(f"Error response from daemon: unauthorized: incorrect password {said}")


def run(words: list[str]) -> int:
    options, image, arguments = parse(words[1:])
    if image not in images():
        return fail(f"docker: Error response from daemon: No such image: {image}", 125)
    names = [value.partition("=") for name, value in options if name == "--env"]
    inside = {name: value if given else os.environ[name] for name, given, value in names}
    inside["PATH"] = str(Path(sys.executable).parent)
    inside["PYTHONPATH"] = ""
    chosen = dict(options)
    (PLACE / f"{chosen['--name']}.env").write_text(json.dumps(inside))
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        contain(chosen, [chosen["--entrypoint"], *arguments], inside, writer)
    os.close(writer)
    return int(os.read(reader, 16) or b"125")


def contain(chosen: dict[str, str], command: list[str], inside: dict[str, str], told: int) -> None:
    """The part of the daemon: start the process, wait for it, say how it ended."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(chosen.get("--workdir", "/"))
        os.execvpe(command[0], command, inside)
    file = PLACE / f"{chosen['--name']}.pid"
    part = file.with_suffix(".part")
    part.write_text(str(pid))
    part.replace(file)  # atomic: readers see the whole number
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    file.unlink(missing_ok=True)  # --rm
    os.write(told, str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def remove(words: list[str]) -> int:
    try:
        os.kill(int((PLACE / f"{words[-1]}.pid").read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        return fail(f"Error response from daemon: No such container: {words[-1]}")
    return 0


def parse(words: list[str]) -> tuple[list[tuple[str, str]], str, list[str]]:
    options = []
    at = 0
    while words[at].startswith("--"):
        if words[at] in WITHOUT_VALUE:
            at += 1
        else:
            options.append((words[at], words[at + 1]))
            at += 2
    return options, words[at], words[at + 1 :]


VERBS = {
    "info": info,
    "image inspect": inspect,
    "image ls": listing,
    "build": build,
    "tag": tag,
    "push": push,
    "pull": pull,
    "login": login,
    "run": run,
    "rm": remove,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
