"""Makes the page's script small: `make page`, after a change of src/pivec/report/web/*.js."""

import re
import subprocess
import sys
from pathlib import Path

from pivec.report.pages import BUILT, fingerprint, resource

WEB = Path(__file__).parents[2] / "src/pivec/report/web"
ENTRY = "main.js"
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


def joined() -> str:
    """Join the modules, each after those it imports; names at the top level are shared by all."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        source = resource(name)
        parts[name] = ""  # modules may import each other
        for other in _IMPORT.findall(source):
            add(other)
        del parts[name]  # after what it needs
        parts[name] = _EXPORT.sub("", _IMPORT.sub("", source))

    add(ENTRY)
    return '"use strict";\n(() => {\n' + "".join(parts.values()) + "})();\n"


def main(tools: str) -> None:
    code = joined()
    terser = Path(tools, "node_modules/.bin/terser")
    command = [terser, "--compress", "passes=2", "--mangle", "--ecma", "2022"]
    small = subprocess.run(command, input=code, text=True, capture_output=True, check=True).stdout
    first = f"// Made by `make page` from the modules beside it: {fingerprint(code)}\n"
    (WEB / BUILT).parent.mkdir(exist_ok=True)
    (WEB / BUILT).write_text(first + small.strip() + "\n", encoding="utf-8")
    print(f"{BUILT}: {len(small):,} of {len(code):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
