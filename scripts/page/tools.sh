# Installs what checks and shortens the page's script into $tools, once; `skip` says why it cannot.
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not there"
node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' \
    || skip "node $(node --version) is too old, 20.19 or newer is needed"
if ! cmp -s scripts/page/package.json "$tools/package.json"; then
    rm -rf "$tools" && mkdir -p "$tools/new"
    cp scripts/page/package.json "$tools/new"
    npm install --prefix "$tools/new" --silent --ignore-scripts --no-audit --no-fund \
        --fetch-retries 1 --fetch-retry-mintimeout 1000 --fetch-timeout 20000 \
        || skip "npm could not install typescript and eslint; is there a network?"
    mv "$tools"/new/* "$tools" && rm -r "$tools/new"
fi
