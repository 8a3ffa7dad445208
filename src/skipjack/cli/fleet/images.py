"""``skipjack image``: container images for workers, built here and pulled by all machines."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    UnitsOption,
    device_of,
    examples,
    the_store,
)
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.fleet.machines import ImageCommandResult, OutputLine
    from skipjack.fleet.model import Registration

log = logging.getLogger(__name__)

app = typer.Typer(
    help="Build, push and pull container images for workers.",
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

ImageArgument = Annotated[str, typer.Argument(help="An image, such as my_img or team/repo:my_img.")]
RepositoryOption = Annotated[
    str, typer.Option(help="The repository: my_img is REPOSITORY:my_img there.")
]
HereOption = Annotated[bool, typer.Option("--here", help="Only on this machine.")]


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
    version: Annotated[
        str, typer.Option("-v", "--version", help="ROCm's version, such as 6.2.")
    ] = "",
    no_cache: Annotated[
        bool, typer.Option("-n", "--no-cache", help="Run every step again, without the cache.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="A Dockerfile instead of Skipjack's own.")
    ] = None,
    repository: Annotated[str, typer.Option(help="MIOpen's git repository.")] = "",
    build_arg: Annotated[
        list[str] | None,
        typer.Option(help="A build argument for the Dockerfile, NAME=value; repeatable."),
    ] = None,
    ssh: Annotated[
        list[str] | None,
        typer.Option(help="An ssh agent for the build: default, or NAME=PATH; repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            help="A secret for the build: id=NAME,src=FILE or id=NAME,env=VARIABLE; repeatable."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Build an image of ROCm, a branch of MIOpen and this Skipjack."""
    from skipjack.fleet.images import ImageRecipe
    from skipjack.fleet.images import build as build_image

    access = tuple(ssh or ()), tuple(secret or ())
    recipe = ImageRecipe(
        tag, branch, version, repository, tuple(build_arg or ()), no_cache, *access
    )
    _warn_of_secrets(recipe.build_arguments)
    id = build_image(recipe, file=file, quiet_stdout=json)
    _say({"image": tag, "id": id}, f"{tag} is {_short(id)}", json)


def _warn_of_secrets(build_arguments: tuple[str, ...]) -> None:
    from skipjack.plans import names_a_secret

    for name in (text.partition("=")[0] for text in build_arguments):
        if names_a_secret(name):
            log.warning(
                "the build argument %s stays in the image's history, where everyone who has the "
                "image can read it; --secret passes it to the build only",
                name,
            )


@app.command("tag", epilog=examples("skipjack image tag my_img skipjack:latest"))
def tag(
    image: ImageArgument,
    name: Annotated[str, typer.Argument(help="The additional name.")],
    json: JsonOption = False,
) -> None:
    """Give an image on this machine an additional name."""
    from skipjack.fleet.images import commands, find_engine, names
    from skipjack.fleet.machines import remote_images

    names.check_image(image)
    names.check_new_image(name)
    engine = find_engine()
    _one(remote_images.here(engine, commands.tag_image(image, name)))
    _say({"image": image, "name": name}, f"{image} is also {name}", json)


@app.command("push", epilog=examples("skipjack image push my_img --repository rocm/miopen-private"))
def push(image: ImageArgument, repository: RepositoryOption = "", json: JsonOption = False) -> None:
    """Push an image to its registry, under its name in the repository if one is given."""
    from skipjack.fleet.images import commands, find_engine, names
    from skipjack.fleet.machines import remote_images

    names.check_new_image(image)
    target = names.in_repository(image, repository) if repository else image
    engine = find_engine()
    if target != image:
        _one(remote_images.here(engine, commands.tag_image(image, target)))
    code = engine.show(commands.push_image(target), quiet_stdout=json)
    if code:
        raise SkipjackError(
            f"{engine.name} could not push {target}: it exited with code {code} after the output "
            "above; skipjack image login logs in to the registry"
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
    name: Annotated[
        str, typer.Option("--as", help="An additional name for it on each machine.")
    ] = "",
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Pull an image on every enabled machine; machines that fail are named at the end."""
    from skipjack.fleet.images import find_engine, names
    from skipjack.fleet.machines import remote_images

    names.check_image(image)
    source = names.in_repository(image, repository) if repository else image
    new = names.check_new_image(name) if name else image if repository else ""
    machines = [] if here else _machines(device_of(device, arch, units))
    results = remote_images.pull(
        machines, find_engine() if here else None, source, new, None if json else _echo
    )
    _report(results, f"has {source}{f' as {new}' if new else ''}", json)
    remote_images.check(results, f"pulling {source}")


@app.command(
    "login",
    epilog=examples(
        "skipjack image login -u me < password.txt",
        "skipjack image login -u me registry.example.org:5000",
    ),
)
def login(
    registry: Annotated[str, typer.Argument(help="A registry (the engine's default).")] = "",
    user: Annotated[str, typer.Option("-u", "--user", help="The user name.")] = "",
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Log in to a registry here and then on every enabled machine.

    The password is read from standard input, or asked for on a terminal. It is passed on through
    standard input, and only the engine stores it.
    """
    from skipjack.fleet.images import commands, find_engine, names
    from skipjack.fleet.machines import remote_images

    if not user:
        raise UsageError("no user name given; write skipjack image login -u NAME")
    line = commands.log_in(names.check_user(user), names.check_registry(registry))
    engine = find_engine()
    machines = [] if here else _all_machines()
    password = _password(user)
    # Log in here first, so that a wrong password is refused once and not by all machines.
    results = [remote_images.here(engine, line, secret=password)]
    if not results[0].failure:
        results += remote_images.everywhere(machines, line, secret=password)
    _report(results, "is logged in", json)
    remote_images.check(results, f"logging in as {user}")


@app.command("list", epilog=examples("skipjack image list", "skipjack image list my_img"))
def list_images(
    image: Annotated[str, typer.Argument(help="An image (all that Skipjack built).")] = "",
    here: HereOption = False,
    json: JsonOption = False,
) -> None:
    """Show which machines have an image, and whether it is the same on all."""
    from skipjack.fleet.images import commands, find_engine, names
    from skipjack.fleet.machines import remote_images
    from skipjack.report import print_json
    from skipjack.report.fleet import image_rows, print_images

    if image:
        names.check_image(image)
    line = commands.list_images(image)
    results = [remote_images.here(find_engine(), line)]
    results += remote_images.everywhere([] if here else _all_machines(), line)
    answered = [result for result in results if not result.failure]
    found = [one for result in answered for one in remote_images.present(result)]
    rows = image_rows(found, [result.machine for result in answered], image)
    if json:
        for row in rows:
            print_json("image list", row)
    elif answered:
        print_images(rows)
    remote_images.check(results, "listing images")


def _machines(device: str | None) -> list[Registration]:
    from skipjack.fleet.machines import select_machines

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
            "no password was given; pass it on standard input, as one line, or use a terminal"
        )
    return password


def _echo(line: OutputLine) -> None:
    typer.echo(f"{line.machine}: {line.text}", err=True)


def _one(result: ImageCommandResult) -> None:
    if result.failure:
        raise SkipjackError(result.failure)


def _report(results: list[ImageCommandResult], good: str, json: bool) -> None:
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
