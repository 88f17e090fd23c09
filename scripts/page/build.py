"""Makes the page's script small: `make page`, after a change of src/pivec/report/web/*.js."""

import subprocess
import sys
from pathlib import Path

from pivec.report.pages import BUILT, fingerprint, joined

WEB = Path(__file__).parents[2] / "src/pivec/report/web"


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
