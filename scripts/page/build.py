"""Bundles the scripts of the pages: `make page`, after a change in src/pivec/report/web."""

import os
import subprocess
import sys
from pathlib import Path

from pivec.report.pages import SCRIPTS, fingerprint, web_folder

HERE = Path(__file__).parent


def sources() -> str:
    """Return everything that the bundles depend on."""
    files = sorted(path for path in web_folder().rglob("*.ts*") if path.is_file())
    return "".join(path.read_text(encoding="utf-8") for path in [*files, HERE / "package.json"])


def main(tools: str) -> None:
    """Bundle and minify each script; its first line identifies the sources."""
    web, modules = web_folder(), Path(tools, "node_modules").resolve()
    options = ["--bundle", "--minify", "--format=iife", "--target=es2022", "--charset=utf8"]
    options += ["--jsx=automatic", "--jsx-import-source=preact", "--legal-comments=none"]
    (web / "built").mkdir(exist_ok=True)
    for built, entry in SCRIPTS.items():
        command = [modules / ".bin/esbuild", web / entry, *options]
        environment = os.environ | {"NODE_PATH": str(modules)}
        run = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
        if run.returncode:
            sys.exit(run.stderr)
        head = f"// Made by `make page` from {entry}: {fingerprint(sources())}\n"
        (web / "built" / built).write_text(head + run.stdout.strip() + "\n", encoding="utf-8")
        print(f"{built}: {len(run.stdout.encode()):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
