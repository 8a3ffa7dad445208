"""Detection of secrets in plans, which are shared, kept and printed."""

from __future__ import annotations

import re

from skipjack.plans.commands import spelled

_WORDS = (
    *("password", "passwd", "pwd", "passphrase", "token", "secret", "credential", "credentials"),
    *("key", "apikey"),
)
_LONG_WORDS = tuple(word for word in _WORDS if word not in ("key", "pwd"))
"""Words that may end a name without a separator: GHTOKEN, but not MONKEY."""
_IN_URL = re.compile(r"://[^/\s:@]+:[^/\s@]+@|\bhttps?://[^/\s?#@]+@", re.IGNORECASE)
"""A password; in web addresses also a user name alone, which is often a token."""
_BEFORE_HOST = re.compile(r"(?:^|\s)[^\s/:@=]+:[^\s/@]+@(?!sha256:)[\w.\[]", re.IGNORECASE)
"""``user:password@host``; an image's digest looks similar."""
_COMMANDS = (
    (re.compile(r"\blogin\b"), re.compile(r"\s(?:-p|--password)(?:[ =]|$)")),
    (re.compile(r"\bcurl\b"), re.compile(r"\s(?:-u|--user)[ =]\S+:[^\s$]")),
)
"""Commands, and options with a password that may follow in the line.

These are two patterns each, as a single one would take time quadratic in the line's length.
"""
_HEADER = re.compile(
    r"\bauthorization\s*:\s*(?:(?:bearer|basic|token)\s+)?+[^\s$]"
    r"|\bbearer\s+(?=\S*\d)[\w.~+/=-]{8,}",
    re.IGNORECASE,
)
_VALUE = r"[\"']?(\S?)"
_ASSIGNED = re.compile(rf"(?<![\w$.-])([A-Za-z_][\w.-]*)={_VALUE}")
_OPTION = re.compile(rf"(?<!\S)--([A-Za-z][\w-]*)[ =]+{_VALUE}")
_ELSEWHERE = frozenset("/~.$\"'")
"""First characters of values that say where a secret is, and not what it is."""
_PLACE = re.compile(r"id=[^,=]+(?:,type=[^,=]+)?,(?:src|source|env)=[^,=]+")
_KNOWN_TOKENS = re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA)\w{8,}")


def names_a_secret(key: str) -> bool:
    """Whether a key is for a secret itself, rather than for a file that holds it."""
    name = spelled(key.lower()).replace(".", "-")
    return name != "key" and (name.rpartition("-")[2] in _WORDS or name.endswith(_LONG_WORDS))


def names_a_place(text: str) -> bool:
    """Whether a value says where a secret is, such as ``id=NAME,src=FILE`` of ``image build``."""
    return _PLACE.fullmatch(text) is not None


def _is_secret(variable: str) -> bool:
    return names_a_secret(variable) or variable.lower() == "key"


def _in_command(line: str) -> bool:
    for command, option in _COMMANDS:
        found = command.search(line)
        if found and option.search(line, found.end()):
            return True
    return False


def holds_a_secret(text: str) -> bool:
    """Whether a value seems to contain a password or a token."""
    patterns = (_IN_URL, _BEFORE_HOST, _HEADER, _KNOWN_TOKENS)
    if any(pattern.search(text) for pattern in patterns):
        return True
    if any(map(_in_command, text.splitlines())):
        return True
    named = [begin for name, begin in _ASSIGNED.findall(text) if _is_secret(name)]
    # In many programs, an option --key is for sorting.
    named += [begin for name, begin in _OPTION.findall(text) if name.lower().endswith(_LONG_WORDS)]
    return any(begin and begin not in _ELSEWHERE for begin in named)
