"""What may be written down about a machine."""

import pytest

from skipjack.errors import UsageError
from skipjack.fleet.model import Registration


@pytest.mark.parametrize(
    "host", ["10.0.0.7", "gpu7.example.org", "fe80::1%eth0", "gpu_alias", "[::1]"]
)
def test_hosts_are_names_addresses_and_aliases(host: str) -> None:
    assert Registration("gpu7", host).host == host


@pytest.mark.parametrize(
    "host",
    ["[-oProxyCommand", "[-oProxyCommand]", "[gpu7]", "[gpu7", "gpu7]", "[::1", "[[::1]]"],
)
def test_brackets_are_for_addresses_alone(host: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        Registration("gpu7", host)


@pytest.mark.parametrize("host", ["-oProxyCommand=sh", "", "a b", "a;b", "$(x)", "a\nb", "h" * 300])
def test_a_host_that_ssh_or_a_shell_could_take_for_something_else_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        Registration("gpu7", host)


@pytest.mark.parametrize("user", ["-l", "a b", "$(x)", "root;id"])
def test_so_is_such_a_user(user: str) -> None:
    with pytest.raises(UsageError, match="cannot be the user"):
        Registration("gpu7", "h", user=user)


@pytest.mark.parametrize("name", ["-x", "", "a/b", "../x", "n" * 65, "a b"])
def test_so_is_such_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        Registration(name, "h")


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="--host h --user me; Skipjack stores none") as caught:
        Registration("gpu7", "me:geheim@h")
    assert "geheim" not in str(caught.value)
    with pytest.raises(UsageError, match="no password") as caught:
        Registration("gpu7", "h", user="me:geheim")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("127.0.0.1:22101", "--host 127.0.0.1 --port 22101"),
        ("gpu7:22", "--host gpu7 --port 22"),
        ("[::1]:22", r"--host \[::1\] --port 22"),
        ("a:b:c", "only IPv6 addresses"),
        ("ssh://me:geheim@h", "does not begin with ssh://; write --host HOST, and --user"),
    ],
)
def test_a_port_and_a_scheme_are_no_part_of_a_host(host: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        Registration("gpu7", host)
    assert "geheim" not in str(caught.value) and "--user ssh" not in str(caught.value)


def test_a_user_in_the_host_belongs_apart() -> None:
    with pytest.raises(UsageError, match="--host h --user me"):
        Registration("gpu7", "me@h")


@pytest.mark.parametrize("wrong", [{"port": -1}, {"port": 65536}, {"gpus": -1}, {"gpus": 5000}])
def test_numbers_are_in_their_ranges(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="gpu7"):
        Registration("gpu7", "h", **wrong)  # type: ignore[arg-type]


def test_a_device_is_spelled_as_everywhere() -> None:
    with pytest.raises(UsageError, match="gfx908"):
        Registration("gpu7", "h", device="gfx908")
