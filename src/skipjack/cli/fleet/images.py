"""``skipjack image``: container images for workers, made here and handed to all machines."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    UnitsOption,
    device_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.fleet.machines.images_everywhere import Result
    from skipjack.fleet.machines.registration import Registration
    from skipjack.fleet.machines.ssh import Line

log = logging.getLogger(__name__)

app = typer.Typer(
    help="Container images for workers: build, push, pull everywhere.",
    epilog=examples(
        "skipjack image build --branch develop --version 6.2 --no-cache -t my_img",
        "skipjack image login -u me < password.txt",
        "skipjack image push my_img --repository rocm/miopen-private",
        "skipjack image pull my_img --repository rocm/miopen-private",
        "skipjack image list my_img",
        "skipjack run -l L --image my_img",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)

ImageArgument = Annotated[str, typer.Argument(help="An image, as my_img or team/repo:my_img.")]
RepositoryOption = Annotated[
    str, typer.Option(help="Where it is kept: my_img is REPOSITORY:my_img there.")
]
HereOption = Annotated[bool, typer.Option("--here", help="This machine and no other.")]


@app.command(
    "build",
    epilog=examples(
        "skipjack image build --branch develop --version 6.2 --no-cache -t my_img",
        "skipjack image build -t my_img --build-arg MIOPEN_OPTIONS=-DMIOPEN_USE_MLIR=Off",
        "skipjack image build -t my_img --file my.Dockerfile",
        "skipjack image build -t my_img --repository git@example.org:team/miopen.git --ssh default",
    ),
)
def build(
    tag: Annotated[str, typer.Option("-t", "--tag", help="The name of the new image.")],
    branch: Annotated[str, typer.Option("-b", "--branch", help="MIOpen's branch.")] = "develop",
    version: Annotated[str, typer.Option("-v", "--version", help="ROCm's, as 6.2.")] = "",
    no_cache: Annotated[
        bool, typer.Option("-n", "--no-cache", help="Make every step anew.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="A Dockerfile instead of Skipjack's own.")
    ] = None,
    repository: Annotated[str, typer.Option(help="MIOpen's git repository.")] = "",
    build_arg: Annotated[
        list[str] | None, typer.Option(help="NAME=value for the Dockerfile; repeat for more.")
    ] = None,
    ssh: Annotated[
        list[str] | None,
        typer.Option(help="An ssh agent for the build: default, or NAME=PATH; repeat for more."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            help="A secret for the build: id=NAME,src=FILE or id=NAME,env=VARIABLE; repeat."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make an image of ROCm, a branch of MIOpen and this Skipjack."""
    from skipjack.fleet.images.building import build as build_image
    from skipjack.fleet.images.commands import Recipe

    access = tuple(ssh or ()), tuple(secret or ())
    recipe = Recipe(tag, branch, version, repository, tuple(build_arg or ()), no_cache, *access)
    _warn_of_secrets(recipe.build_arguments)
    id = build_image(recipe, file=file, quiet_stdout=json)
    _say({"image": tag, "id": id}, f"{tag} is {_short(id)}", json)


def _warn_of_secrets(build_arguments: tuple[str, ...]) -> None:
    from skipjack.plans.secrecy import names_a_secret

    for name in (text.partition("=")[0] for text in build_arguments):
        if names_a_secret(name):
            log.warning(
                "the build argument %s stays in the image's history, where everybody who has the "
                "image reads it; --secret gives it to the build alone",
                name,
            )


@app.command("tag", epilog=examples("skipjack image tag my_img skipjack:latest"))
def tag(
    image: ImageArgument,
    name: Annotated[str, typer.Argument(help="Its further name.")],
    json: JsonOption = False,
) -> None:
    """Give an image of this machine another name."""
    from skipjack.fleet.images import commands, names
    from skipjack.fleet.images.container_engine import find_engine
    from skipjack.fleet.machines import images_everywhere as everywhere

    names.check_image(image)
    names.check_new_image(name)
    engine = find_engine()
    _one(everywhere.here(engine, commands.tag_image(image, name)))
    _say({"image": image, "name": name}, f"{image} is also {name}", json)


@app.command("push", epilog=examples("skipjack image push my_img --repository rocm/miopen-private"))
def push(image: ImageArgument, repository: RepositoryOption = "", json: JsonOption = False) -> None:
    """Send an image to its registry, under its name in a repository if one is given."""
    from skipjack.fleet.images import commands, names
    from skipjack.fleet.images.container_engine import find_engine
    from skipjack.fleet.machines import images_everywhere as everywhere

    names.check_new_image(image)
    target = names.in_repository(image, repository) if repository else image
    engine = find_engine()
    if target != image:
        _one(everywhere.here(engine, commands.tag_image(image, target)))
    code = engine.show(commands.push_image(target), quiet_stdout=json)
    if code:
        raise SkipjackError(
            f"{engine.name} could not push {target}: it ended with exit code {code}, and what it "
            "says above is why; skipjack image login lets you in"
        )
    _say({"image": image, "pushed": target}, f"{image} is in its registry as {target}", json)


@app.command(
    "pull",
    epilog=examples(
        "skipjack image pull my_img --repository rocm/miopen-private",
        "skipjack image pull team/tuning:my_img -a gfx908 -n 120 --as skipjack:latest",
    ),
)
def pull(
    image: ImageArgument,
    repository: RepositoryOption = "",
    name: Annotated[str, typer.Option("--as", help="A further name for it on each machine.")] = "",
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Get an image on every enabled machine; one that fails is named, and the others go on."""
    from skipjack.fleet.images import names
    from skipjack.fleet.images.container_engine import find_engine
    from skipjack.fleet.machines import images_everywhere as everywhere

    names.check_image(image)
    source = names.in_repository(image, repository) if repository else image
    new = names.check_new_image(name) if name else image if repository else ""
    machines = [] if here else _machines(device_of(device, arch, units))
    results = everywhere.pull(
        machines, find_engine() if here else None, source, new, None if json else _echo
    )
    _report(results, f"has {source}{f' as {new}' if new else ''}", json)
    everywhere.check(results, f"pulling {source}")


@app.command(
    "login",
    epilog=examples(
        "skipjack image login -u me < password.txt",
        "skipjack image login -u me registry.example.org:5000",
    ),
)
def login(
    registry: Annotated[
        str, typer.Argument(help="A registry; without it the engine's own choice.")
    ] = "",
    user: Annotated[str, typer.Option("-u", "--user", help="Who logs in.")] = "",
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Log in to a registry here and then on every enabled machine.

    The password is read from standard input, or asked for. It is passed on by standard input and
    kept by nobody but the engine's own files.
    """
    from skipjack.fleet.images import commands, names
    from skipjack.fleet.images.container_engine import find_engine
    from skipjack.fleet.machines import images_everywhere as everywhere

    if not user:
        raise UsageError("-u says who logs in, as skipjack image login -u me")
    line = commands.log_in(names.check_user(user), names.check_registry(registry))
    engine = find_engine()
    machines = [] if here else _all_machines()
    password = _password(user)
    # A wrong password is refused once, not by all machines.
    results = [everywhere.here(engine, line, secret=password)]
    if not results[0].failure:
        results += everywhere.everywhere(machines, line, secret=password)
    _report(results, "is logged in", json)
    everywhere.check(results, f"logging in as {user}")


@app.command("list", epilog=examples("skipjack image list", "skipjack image list my_img"))
def list_images(
    image: Annotated[
        str, typer.Argument(help="An image; without it all that were built by Skipjack.")
    ] = "",
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Say which machines have an image, and whether it is the same one."""
    from skipjack.fleet.images import commands, names
    from skipjack.fleet.images.container_engine import find_engine
    from skipjack.fleet.machines import images_everywhere as everywhere
    from skipjack.report import print_json
    from skipjack.report.fleet.images import image_rows, print_images

    if image:
        names.check_image(image)
    line = commands.list_images(image)
    results = [everywhere.here(find_engine(), line)]
    results += everywhere.everywhere([] if here else _all_machines(), line)
    answered = [result for result in results if not result.failure]
    found = [one for result in answered for one in everywhere.present(result)]
    rows = image_rows(found, [result.machine for result in answered], image)
    if json:
        for row in rows:
            print_json("image list", row)
    elif answered:
        print_images(rows)
    everywhere.check(results, "listing images")


def _machines(device: str | None) -> list[Registration]:
    from skipjack.fleet.machines.selecting import select_machines

    with the_store() as store:
        return select_machines(store.registrations, device=device)


def _all_machines() -> list[Registration]:
    with the_store() as store:
        return store.registrations.all(enabled_only=True)


def _password(user: str) -> str:
    import sys
    from getpass import getpass

    text = getpass(f"Password of {user}: ") if sys.stdin.isatty() else sys.stdin.read()
    password = text.rstrip("\r\n")
    if not password or "\n" in password:
        raise UsageError(
            "the password is read from standard input, one line, or asked for on a terminal"
        )
    return password


def _echo(line: Line) -> None:
    typer.echo(f"{line.machine}: {line.text}", err=True)


def _one(result: Result) -> None:
    if result.failure:
        raise SkipjackError(result.failure)


def _report(results: list[Result], good: str, json: bool) -> None:
    from skipjack.report import print_json

    for result in results:
        if json:
            fields = {"machine": result.machine, "ok": not result.failure}
            print_json("image pull", {**fields, "failure": result.failure})
        elif not result.failure:
            typer.echo(f"{result.machine} {good}")


def _say(fields: dict[str, str], sentence: str, json: bool) -> None:
    from skipjack.report import print_json

    if json:
        print_json("image push", fields)
    else:
        typer.echo(sentence)


def _short(id: str) -> str:
    return id.removeprefix("sha256:")[:12]
