"""Take packages of a Debian suite without installing them: apt with folders of its own, then ``dpkg -x``.

The address is the one that this machine's apt already uses, whatever mirror that is.
"""

import os
import shutil
import subprocess
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror():
    """Return the address of this machine's Debian archive."""
    if shutil.which("apt-get") is None:
        raise RuntimeError(
            "no Docker engine runs here, and without apt none can be fetched: start one and run it again"
        )
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in listed.splitlines():
        uri, codename, component, origin = (*line.split(), "", "", "")[:4]
        if (codename, component, origin) == (suite(), "main", "Debian"):
            return uri
    raise RuntimeError(f"apt knows no Debian archive for {suite()}: run apt-get update, or start a Docker engine")


def suite():
    """Return this machine's own suite, such as ``bookworm``."""
    told = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return told.get("VERSION_CODENAME", "").strip('"')


def source(name):
    """Return the line that tells apt of a suite."""
    return f"deb [signed-by={KEYRING}] {mirror()} {name} main"


def unpack(folder, packages):
    """Unpack packages into ``folder``, all or nothing; what is already there is kept.

    Args:
        folder: Where.
        packages: Suite -> names.
    """
    wanted = [f"{name}/{of}" for of, names in packages.items() for name in names]
    stamp = folder / "packages"
    if stamp.exists() and stamp.read_text().split() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    apt = folder.with_name(f"{folder.name}.apt")
    for part in ("lists/partial", "cache/archives/partial", "parts", "debs"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text("".join(f"{source(name)}\n" for name in packages))
    command = [
        *("apt-get", "-qq"),
        *("-o", f"Dir::Etc::sourcelist={apt}/sources.list", "-o", f"Dir::Etc::sourceparts={apt}/parts"),
        *("-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache"),
        *("-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"),
    ]
    subprocess.run([*command, "update"], check=True, stdin=subprocess.DEVNULL)
    subprocess.run([*command, "download", *wanted], cwd=apt / "debs", check=True, stdin=subprocess.DEVNULL)
    for package in sorted((apt / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
    shutil.rmtree(apt)
    stamp.write_text(" ".join(wanted))


def environment(folder):
    """Return an environment in which programs from ``folder`` are found, and their libraries."""
    library = f"{folder}/usr/lib/x86_64-linux-gnu"
    return os.environ | {
        "PATH": f"{folder}/usr/bin:{folder}/usr/sbin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": library,
        "XTABLES_LIBDIR": f"{library}/xtables",
    }
