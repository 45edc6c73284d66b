"""Settings of a trusted proxy: how its groups become roles, and where it may be."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from service.contracts.access.roles import ADDRESS_ROLES, ROLES, Role
from service.contracts.base import is_dataset_name

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class GroupRole(NamedTuple):
    """The role of a group's members. `datasets`: the only ones that they may use; none: all."""

    role: Role
    datasets: tuple[str, ...] = ()


def parse_group_roles(entries: list[str]) -> dict[str, GroupRole]:
    """`group=role` or `group=role:dataset+dataset`, by group."""
    roles: dict[str, GroupRole] = {}
    for entry in entries:
        group, _, value = entry.rpartition("=")
        role, colon, names = value.partition(":")
        datasets = tuple(names.split("+")) if colon else ()
        if not group or role not in ROLES or role in ADDRESS_ROLES or not all(map(is_dataset_name, datasets)):
            raise ValueError(
                f"{entry!r}: give group=role or group=role:dataset+dataset with one of the roles "
                + ", ".join(name for name in ROLES if name not in ADDRESS_ROLES)
            )
        if group in roles:
            raise ValueError(f"the group {group!r} has two entries: give one, such as group=reviewer:med+law")
        roles[group] = GroupRole(role, datasets)
    return roles


def parse_networks(entries: list[str]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(entry) for entry in entries)
    except ValueError as error:
        raise ValueError(f"{error}: give addresses or networks such as 10.0.0.7 or 10.1.0.0/16") from None
