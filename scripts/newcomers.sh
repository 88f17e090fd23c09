#!/usr/bin/env bash
# What a newcomer meets: fresh files of each library, and the natural command on them, a line each.
#
#   scripts/newcomers.sh                   files of the libraries that are installed
#   scripts/newcomers.sh --install         others too, each in an environment of its own
#   scripts/newcomers.sh --shipped         the files in tests/data/libraries, nothing is made
#   scripts/newcomers.sh [...] flax brax   these scripts of scripts/checkpoints or recordings alone
#
# PYTHON names the interpreter that has pivec; KEEP a folder in which everything stays; CLEANRL a
# checkout of CleanRL, whose own script is run.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
python=$(command -v "${PYTHON:-python}") || { echo "no interpreter called ${PYTHON:-python}"; exit 2; }
place=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$place"' EXIT
mkdir -p "$place"
export PYTHONPATH=$root/src${PYTHONPATH:+:$PYTHONPATH}
install='' shipped='' only=()
for argument in "$@"; do
    case $argument in
        --install) install=yes ;;
        --shipped) shipped=yes ;;
        -*) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
        *) only+=("$argument") ;;
    esac
done

last() { tail -n 1 "$1" | cut -c 1-300; }

# Writes the rows of a script into $place/rows; says why not if that fails.
make_rows() {
    local script=$1 own=$python packages
    local arguments=()
    if [ "$name" = cleanrl ]; then
        [ -n "${CLEANRL:-}" ] || { echo "not made: CLEANRL must name a checkout of it"; return 1; }
        arguments=("$CLEANRL")
    fi
    packages=$(sed -n '1,9s/.*`pip install \([^`]*\)`.*/\1/p' "$script" | head -n 1)
    run() { (cd "$(dirname "$script")" && PIVEC_ROWS=$place/rows "$own" "$script" "${arguments[@]}") >"$place/log" 2>&1; }
    run && return
    if grep -q ModuleNotFoundError "$place/log" && [ -n "$install" ]; then
        own=$place/venv-$(basename "$script" .py)/bin/python
        # What is installed already is seen from there, so that little is installed anew.
        "$python" -m venv "${own%/bin/python}" &&
            "$python" -c 'import site; print(*site.getsitepackages(), sep="\n")' \
                >"$("$own" -c 'import site; print(site.getsitepackages()[0])')/seen.pth" &&
            eval "\"$own\" -m pip install -q $packages" >"$place/log" 2>&1 && run && return
    fi
    echo "not made: $(last "$place/log") (pip install $packages${install:+ did not help})"
    return 1
}

# The natural command on a row, with what its row.toml says it takes.
try_row() {
    local row=$1 environment policy trust out=$place/out
    local wrappers=()
    mapfile -t facts < <("$python" - "$row/row.toml" <<'END'
import sys, tomllib
row = tomllib.load(open(sys.argv[1], "rb"))
print(row["environment"], row["policy"], row["needs_trust"], *row.get("wrappers", ()), sep="\n")
END
    )
    environment=${facts[0]} policy=${facts[1]} trust=${facts[2]}
    for wrapper in "${facts[@]:3}"; do wrappers+=(--wrappers "$wrapper"); done
    compare() {
        rm -rf "$out"
        "$python" -m pivec compare "$environment" "$row/$policy" random --episodes 5 \
            --components 4 --out "$out" -q "${wrappers[@]}" "$@" >"$place/log" 2>&1
    }
    if compare; then
        echo ok
    elif [ "$trust" = True ]; then
        local refused
        refused=$(last "$place/log")
        if compare --trust; then echo "ok with --trust (without: $refused)"; else echo "refused: $(last "$place/log")"; fi
    else
        echo "refused: $(last "$place/log")"
    fi
}

# The natural command on recorded data, and whether its numbers are those of the library.
try_recording() {
    local row=$1 source out=$place/out
    source=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["source"])' "$row/expected.json")
    rm -rf "$out"
    if "$python" -m pivec compare "$row/$source" --components 4 --out "$out" -q >"$place/log" 2>&1; then
        "$python" "$root/scripts/recordings/files.py" "$row" "$out" 2>&1 | tail -n 1
    else
        echo "refused: $(last "$place/log")"
    fi
}

status=0
for script in "$root"/scripts/checkpoints/*_rows.py "$root"/scripts/recordings/*_files.py; do
    name=$(basename "$script" .py) name=${name%_*}
    [[ $script != */recordings/* ]] || [ -z "$shipped" ] || continue
    [ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $name "* ]] || continue
    rm -rf "$place/rows"
    mkdir -p "$place/rows"
    if [ -n "$shipped" ]; then
        for row in "$root"/tests/data/libraries/*/; do
            grep -q "/${name}_rows.py" "$row/row.toml" && cp -r "${row%/}" "$place/rows"
        done
    elif ! why=$(make_rows "$script"); then
        echo "$name: $why"
        continue
    fi
    for row in "$place"/rows/*/; do
        if [ -f "$row/expected.json" ]; then
            answer=$(try_recording "${row%/}")
        else
            answer=$(try_row "${row%/}")
        fi
        [ "${answer#ok}" != "$answer" ] || status=1
        echo "$name: $(basename "$row"): $answer"
    done
done
exit $status
