"""Writes the unit files of the service manager.

systemd listens at the sockets of the manager and its drivers, and starts the manager at the first
connection. The restrictions here are for the manager and all its drivers; each driver's process
restricts itself much further (`neurald.service.sandbox`).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neurald.hal.process.activation import MANAGER_SOCKET

#: The user and group of the machine's service, and the directory of its sockets.
USER: Final = "neurald"
#: Groups whose members may open GPUs.
_DEVICE_GROUPS: Final = ("render", "video")
#: Time that systemd gives the manager to stop in addition to the drain time of its drivers.
_STOP_SLACK_S: Final = 15
_WATCHDOG_S: Final = 30
_HOMES: Final = ("/home", "/root", "/run/user")

#: Restrictions for which no privileges are needed.
_RESTRICTIONS: Final = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
SystemCallArchitectures=native
# The sandbox of drivers needs the calls after the group.
SystemCallFilter=@system-service
SystemCallFilter=seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM
UMask=0077
"""
#: Restrictions that only the system's manager can make. Others would break drivers: compilers
#: write code and then run it (MemoryDenyWriteExecute), and devices must be there (PrivateDevices,
#: and ProtectClock, which closes all devices).
_SYSTEM_RESTRICTIONS: Final = """\
CapabilityBoundingSet=
KeyringMode=private
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome={protect_home}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
ReadWritePaths={directory}
RemoveIPC=yes
RestrictSUIDSGID=yes
TasksMax=8192
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The content of the unit files.

    Attributes:
        command: the command that starts the manager.
        directory: the directory of the sockets, in systemd's notation.
        drivers: names of the drivers.
        drain_s: the longest drain time of a driver.
        is_system: whether they are for the machine, or else for one user.
        group: the group of the sockets of the machine's service.
        socket_mode: the socket mode of the same, in octal.
        serves_models: whether the execution service is configured, so that the manager starts with
            the machine or the session, and not at the first connection to a driver.
    """

    command: Sequence[str]
    directory: str
    drivers: Sequence[str]
    drain_s: float
    is_system: bool
    group: str = USER
    socket_mode: str = "0600"
    serves_models: bool = False

    @property
    def service(self) -> str:
        """The content of `neurald.service`."""
        restrictions = _RESTRICTIONS
        if self.is_system:
            # A virtual environment elsewhere may belong to a Python in a home directory.
            python = {Path(sys.prefix), Path(sys.base_prefix), Path(self.command[0])}
            at_home = any(path.is_relative_to(home) for path in python for home in _HOMES)
            restrictions += _SYSTEM_RESTRICTIONS.format(
                directory=self.directory, protect_home="read-only" if at_home else "yes"
            )
        identity = (
            f"User={USER}\nGroup={self.group}\n"
            "CacheDirectory=neurald neurald-drivers\nCacheDirectoryMode=0700\n"
            "StateDirectory=neurald\nStateDirectoryMode=0700\n"
            "Environment=HOME=/var/lib/neurald XDG_CACHE_HOME=/var/cache XDG_STATE_HOME=/var/lib\n"
        )
        target = "multi-user.target" if self.is_system else "default.target"
        installation = f"\n[Install]\nWantedBy={target}\n" if self.serves_models else ""
        return f"""\
[Unit]
Description=Drivers of neural network devices (neurald)
Documentation=https://github.com/neurald/neurald
Requires=neurald.socket
After=neurald.socket

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(map(quoted, self.command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
WatchdogSec={_WATCHDOG_S}
TimeoutStopSec={self.drain_s + _STOP_SLACK_S:g}
# The manager stops its drivers itself, and goes on if the kernel kills one for its memory.
KillMode=mixed
OOMPolicy=continue
{identity if self.is_system else ""}
{restrictions}{installation}"""

    @property
    def socket(self) -> str:
        """The content of `neurald.socket`."""
        names = (MANAGER_SOCKET, *(f"{name}.sock" for name in self.drivers))
        listen = "".join(f"ListenStream={self.directory}/{name}\n" for name in names)
        identity = (
            f"SocketUser={USER}\nSocketGroup={self.group}\n" if self.is_system else "DirectoryMode=0700\n"
        )
        return f"""\
[Unit]
Description=Sockets of neurald's drivers
Documentation=https://github.com/neurald/neurald

[Socket]
{listen}{identity}SocketMode={self.socket_mode}
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

    @property
    def users(self) -> str:
        """The content of a file for systemd-sysusers: the machine's service has its own user."""
        lines = [f'u {USER} - "neurald" /var/lib/neurald']
        lines += [f"g {self.group} -"] if self.group != USER else []
        for group in _DEVICE_GROUPS:
            lines += [f"g {group} -", f"m {USER} {group}"]
        return "\n".join(lines) + "\n"

    @property
    def directories(self) -> str:
        """The content of a file for systemd-tmpfiles.

        Sockets get the group of the directory, which drivers in their sandbox cannot set.
        """
        return f"d {self.directory} 2755 {USER} {self.group} -\n"


def quoted(argument: str) -> str:
    """Returns an argument of a command as systemd reads it."""
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    is_plain = text == argument and not set(text) & set(" \t'\"")
    return text if is_plain and text else f'"{text}"'
