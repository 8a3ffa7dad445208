"""A plan is checked as a whole against its commands before anything starts."""

from pathlib import Path

import pytest
from books import checked, plan_file, words

from skipjack.cli.command_book import command_book
from skipjack.cli.main import app
from skipjack.errors import NewerFormatError, UsageError
from skipjack.plans import Mistakes, check_inputs, names_a_secret, read_plan, validate
from skipjack.plans.secrets import holds_a_secret


def test_options_become_words_in_the_commands_order(tmp_path: Path) -> None:
    text = "  - load: {tag: small, budget: 8, label: L, fail_if_slower: 2%, stale: yes}"
    assert words(tmp_path, text) == (
        *("load", "--label", "L", "--tag", "small", "--budget", "8"),
        *("--fail-if-slower", "2%", "--stale"),
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("- status", ("status",)),
        ("- status:", ("status",)),
        ("- export find-db: {output: out}", ("export", "find-db", "--output", "out")),
        ("- tune: {problems: [a, -b]}", ("tune", "--", "a", "-b")),
        ("- tune: {problems: a}", ("tune", "a")),
        ("- load: {label: L, versions: 6.20}", ("load", "--label", "L", "--versions", "6.20")),
        ("- load: {label: -x}", ("load", "--label=-x")),
        ("- load: {label: L, color: off}", ("load", "--label", "L", "--no-color")),
        ("- load: {label: L, stale: false}", ("load", "--label", "L")),
        ("- load: {label: L, sbatch: [--a, b]}",
         ("load", "--label", "L", "--sbatch=--a", "--sbatch", "b")),
        ("- machine add: {name: gpu7, range: [1, 2]}",
         ("machine", "add", "--range", "1", "2", "gpu7")),
        ("- tune: {problems: '$(reboot); `x`'}", ("tune", "$(reboot); `x`")),
    ],
)  # fmt: skip
def test_a_step_is_a_command_line(tmp_path: Path, step: str, expected: tuple[str, ...]) -> None:
    assert words(tmp_path, f"  {step}") == expected


def test_defaults_go_where_they_are_understood_and_not_said(tmp_path: Path) -> None:
    plan = """
defaults: {label: L, tag: t, device: a/1}
steps:
  - import: {file: x}
  - load: {tag: other}
  - load: {arch: b}
  - load: {device: ~}
  - status
"""
    steps, mistakes = checked(plan_file(tmp_path, plan))
    assert not mistakes
    assert [step.argv for step in steps] == [
        ("import", "--file", "x", "--tag", "t"),
        ("load", "--label", "L", "--tag", "other", "--device", "a/1"),
        ("load", "--label", "L", "--tag", "t", "--arch", "b"),
        ("load", "--label", "L", "--tag", "t"),
        ("status", "--label", "L"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  - laod: {tag: x}", "2: unknown command 'laod'; did you mean load?"),
        ("  - export:", "2: unknown command 'export'; choose from export find-db"),
        ("  - plan run: {plan: x}", "2: unknown command 'plan run'; a plan cannot contain plans"),
        ("  - load -l L", "2: unknown command 'load -l L'; write options below the command"),
        ("  - load:\n      label: L\n      tga: x", "4: load has no option 'tga'; did you mean"),
        ("  - load: {l: L, label: M}", "2: load has no option 'l'; write label"),
        ("  - load: {label: L, --tag: t}", "2: load has no option '--tag'; write tag"),
        ("  - load: {tag: x}", "2: load needs 'label'"),
        ("  - load:\n      label: L\n      budget: many", "4: load: invalid value for '--budget'"),
        ("  - load: {label: [L, M]}", "2: 'label' takes one value, not a list"),
        ("  - load: {label: {a: b}}", "2: 'label' takes texts and numbers, nothing nested"),
        ("  - load: {label: }", "2: 'label' has no value; give one or leave it out"),
        ("  - load: {label: L, stale: maybe}", "2: 'stale' is a switch; write true or false"),
        ("  - note: {second: b}", "2: 'second' is given without 'first'"),
        ("  - machine add: {name: a, range: [1]}", "2: 'range' takes 2 values in a list"),
        ('  - status: {label: "a\\0b"}', "2: 'label' contains a NUL character"),
        ("  - status: L", "2: options of status must be a table"),
        ("  - load: {label: L}\n    status:",
         "2: a step must have one command, but this one has load"),
        ("  - {}", "2: a step must have one command, but this one has none"),
        ("  - [load]", "2: a step must be a command with its options"),
        ("  - status:\n    enabled: perhaps", "3: enabled must be true or false"),
        ("  - status:\n    name: 7", "3: a name must be a text that begins with a letter"),
        ("  - status: {name: x}", "2: status has no option 'name'; write a step's name next to"),
        ("  - {status: , name: a}\n  - {status: , name: a}",
         "3: the step of line 2 has the name 'a'"),
        ("steps: 7", "1: steps must be a list"),
        ("nmae: x\nsteps: [status]", "1: unknown key 'nmae'; a plan has format, name, defaults"),
        ("defaults: {lable: x}\nsteps: [status]",
         "1: no step accepts the default 'lable'; did you"),
        ("defaults: [x]\nsteps: [status]", "1: defaults must be a table of options"),
        ("  - status: {password: x}", "2: 'password' does not belong in a plan"),
        ("  - status: {docker_token: x}", "2: 'docker_token' does not belong in a plan"),
        ("defaults: {label: p://me:pw@host}\nsteps: [status]",
         "1: 'label' seems to contain a password or token"),
        ("  - tune: {problems: ['https://T0@g.org/m']}",
         "2: 'problems' seems to contain a password or token"),
        ("  - tune: {problems: [docker login -u me -p pw]}",
         "2: 'problems' seems to contain a password or token"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_line(tmp_path: Path, text: str, expected: str) -> None:
    _, mistakes = checked(plan_file(tmp_path, text))
    assert len(mistakes) == 1
    assert mistakes[0].startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("GITHUB_TOKEN=x", "export API_KEY=abc; run", "AWS_SECRET_ACCESS_KEY='a'", "GHTOKEN=a"),
        *("curl -H 'Authorization: Bearer abc' h", "curl -u me:pw h", "deploy --token abc"),
        *("u:p@h", "ssh u:p@h", "echo ghp_abcdefgh1234"),
    ],
)
def test_what_looks_like_a_secret_is_refused(text: str) -> None:
    assert holds_a_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        *("MIOPEN_OPTIONS=-DX=Y", "gfx803/56=gfx900/64", "MONKEY=1", "sort --key 2 f", "uptime"),
        *("API_KEY=$KEY", 'API_KEY="$KEY"', "SKIPJACK_FLEET_KEY=/etc/key", "TOKEN_FILE=x"),
        *("curl -H 'Authorization: Bearer $T' h", "docker login --password-stdin"),
        *("git@example.org:a/b", f"team:tag@sha256:{'a' * 64}", "bearer of news"),
    ],
)
def test_what_says_where_a_secret_is_holds_none(text: str) -> None:
    assert not holds_a_secret(text)


def test_no_option_of_any_command_asks_for_a_secret() -> None:
    book = command_book(app)
    names = {one.name for command in book.values() for one in command.parameters}
    assert "key" in names  # of bundles: a file
    # image build is told where a secret is, and web the file of a key; they take nothing else.
    assert sorted(name for name in names if names_a_secret(name)) == ["secret", "tls-key"]


def test_who_needs_standard_input_is_no_step(tmp_path: Path) -> None:
    _, mistakes = checked(plan_file(tmp_path, "  - image login: {user: me}"))
    assert mistakes == [
        "2: image login reads a password from standard input, which steps do not have; log in "
        "by hand before you run the plan"
    ]


def test_secrets_are_not_repeated(tmp_path: Path) -> None:
    _, mistakes = checked(
        plan_file(tmp_path, "  - status: {token: hunter2, label: a://b:hunter2@c}")
    )
    assert len(mistakes) == 2
    assert "hunter2" not in "".join(mistakes)


def test_a_plan_says_where_a_secret_of_a_build_is_and_not_what(tmp_path: Path) -> None:
    def mistakes(value: str) -> list[str]:
        path = plan_file(tmp_path, f"  - image build: {{tag: i, secret: {value}}}")
        found = Mistakes(path)
        validate(read_plan(path, found), command_book(app), found)
        return [sentence for _, sentence in found.found]

    for value in ('"id=git_credentials,src=token.txt"', '["id=a,env=A", "id=b,src=b"]'):
        assert mistakes(value) == []
    for value in ("hunter2", '"id=a,value=hunter2"', '["id=a,env=A", hunter2]'):
        (mistake,) = mistakes(value)
        assert "does not belong in a plan" in mistake and "hunter2" not in mistake


def test_one_mistake_hides_no_other(tmp_path: Path) -> None:
    text = """\
  - load: {label: [a, b], budget: many, tag: x, tag: y}
  - load: {label: L, label: M, budget: many}
  - laod:
  - load: {budget: many}
"""
    _, mistakes = checked(plan_file(tmp_path, text))
    assert [" ".join(line.split()[:4]) for line in mistakes] == [
        *("2: 'label' takes one", "2: duplicate key 'tag',", "2: load: invalid value"),
        *("3: duplicate key 'label',", "3: load: invalid value"),
        *("4: unknown command 'laod';", "5: load needs 'label'", "5: load: invalid value"),
    ]


def test_the_commands_own_parsers_are_asked_until_they_are_content(tmp_path: Path) -> None:
    path = plan_file(tmp_path, "  - load: {label: L, tag: t, budget: many, seed: few, units: x}")
    mistakes = Mistakes(path)
    validate(read_plan(path, mistakes), command_book(app), mistakes)
    named = [sentence.partition(": ")[2].split("'")[1] for _, sentence in mistakes.found]
    assert sorted(named) == ["--budget", "--seed", "-n"]


def test_all_mistakes_are_found_and_the_first_is_raised(tmp_path: Path) -> None:
    path = plan_file(tmp_path, "  - laod:\n  - load:\n  - staus:\n")
    mistakes = Mistakes(path)
    mistakes.add(9, "last")
    mistakes.add(2, "first")
    with pytest.raises(UsageError, match=r"cycle.yaml:2: first \(1 more: skipjack plan check"):
        mistakes.refuse()
    assert len(checked(path)[1]) == 3


def test_a_plan_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NewerFormatError, match=r"cycle.yaml:1: this plan has format 2"):
        checked(plan_file(tmp_path, "format: 2\nsteps: [status]"))
    with pytest.raises(UsageError, match="unknown format; write 1, or leave it out"):
        checked(plan_file(tmp_path, "format: one\nsteps: [status]"))


def test_a_step_is_switched_off_beside_its_command_or_below_it(tmp_path: Path) -> None:
    text = "  - status:\n    enabled: no\n  - status: {enabled: false}\n  - status: {enabled: true}"
    steps, mistakes = checked(plan_file(tmp_path, text))
    assert not mistakes
    assert [step.enabled for step in steps] == [False, False, True]


def test_names_and_order_do_not_change_what_a_step_is(tmp_path: Path) -> None:
    one, _ = checked(plan_file(tmp_path, "  - load: {label: L, tag: t}"))
    two, _ = checked(plan_file(tmp_path, "  - load: {tag: 't', label: L}\n    name: x"))
    other, _ = checked(plan_file(tmp_path, "  - load: {label: L, tag: u}"))
    assert one[0].digest == two[0].digest != other[0].digest


def test_files_are_there_or_an_earlier_step_makes_them(tmp_path: Path) -> None:
    def missing(text: str) -> list[str]:
        path = plan_file(tmp_path, text)
        mistakes = Mistakes(path)
        check_inputs(checked(path)[0], tmp_path, mistakes)
        return mistakes.lines

    (tmp_path / "there.txt").touch()
    assert not missing("  - import: {file: there.txt}")
    assert not missing("  - export find-db: {output: out}\n  - import: {file: out/new.txt}")
    assert not missing("  - import: {file: gone.txt}\n    enabled: false")
    assert "there is no file gone.txt" in missing("  - import: {file: gone.txt}")[0]
    assert "no standard input" in missing("  - import: {file: '-'}")[0]
