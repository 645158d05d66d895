"""A small distribution and a series of two patches for it, to try the patching library on."""

import json
from dataclasses import dataclass
from pathlib import Path

from firstword.patching import Series, load_series
from firstword.patching.diffs import render
from firstword.patching.series import sha256

A = "".join(f"line {n}\n" for n in range(1, 31))
A1 = A.replace("line 5\n", "line five\n")
A2 = A1.replace("line 20\n", "line twenty\nand more\n")
B = 'text = "caf\u00e9"\r\nvalue = 1\r\n\r\nend = True\r\n'
B2 = B.replace("value = 1", "value = 2")
HEADER = {
    "Description": "a change",
    "Origin": "vendor",
    "Bug": "none",
    "Forwarded": "no",
    "Author": "the firstword authors",
    "Last-Update": "2026-11-30",
    "Applied-Upstream": "no",
    "Distribution": "demo==1.0",
    "Depends": "none",
    "Until": "never",
}
FIRST, SECOND = "demo/0001-five.patch", "demo/0002-twenty.patch"


def patch_text(*diffs: str, **fields: str) -> str:
    """Return a patch file; `fields` change its header, ``_`` standing for ``-``."""
    header = HEADER | {key.replace("_", "-"): value for key, value in fields.items()}
    return "".join(f"{key}: {value}\n" for key, value in header.items() if value is not None) + "---\n" + "".join(diffs)


@dataclass
class Bench:
    """`site` holds demo 1.0 as released, `root` its patches."""

    site: Path
    root: Path

    def series(self) -> Series:
        return load_series(self.root)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_bytes(text.encode())

    def text(self, path: str) -> str:
        return (self.site / path).read_bytes().decode()

    def snapshot(self) -> dict[str, bytes]:
        return {p.relative_to(self.site).as_posix(): p.read_bytes() for p in self.site.rglob("*") if p.is_file()}


def make(folder: Path) -> Bench:
    site, root = folder / "site", folder / "patches"
    for path, data in {
        "demo/__init__.py": b"",
        "demo/a.py": A.encode(),
        "demo/b.py": B.encode(),
        "demo/c.py": b"unchanged = 1\n",
        "demo/__pycache__/a.cpython-312.pyc": b"old",
        "demo/__pycache__/c.cpython-312.pyc": b"good",
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    }.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (site / "demo/a.py").chmod(0o640)
    (root / "demo").mkdir(parents=True)
    bench = Bench(site, root)
    bench.write("series", f"# in order\n{FIRST}\n{SECOND}\n")
    bench.write(FIRST, patch_text(render("demo/a.py", A, A1)))
    bench.write(SECOND, patch_text(render("demo/a.py", A1, A2), render("demo/b.py", B, B2), Depends=FIRST))
    sums = {
        path: {"before": sha256(before.encode()), "after": sha256(after.encode())}
        for path, before, after in (("demo/a.py", A, A2), ("demo/b.py", B, B2))
    }
    bench.write("checksums.json", json.dumps({"demo==1.0": sums}))
    return bench
