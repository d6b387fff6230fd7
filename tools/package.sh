#!/usr/bin/env bash
# Makes the packages that `cargo publish` would upload, and fails where one is larger than 10 MB or lacks metadata:
#
#     tools/package.sh [cargo flags: --no-verify to skip building them, --allow-dirty]
set -euo pipefail
cd "$(dirname "$0")/.."

limit=$((10 * 1000 * 1000))
mapfile -t packages < <(cargo metadata --format-version 1 --no-deps --locked |
    python3 -c 'import json, sys; print("\n".join(one["name"] for one in json.load(sys.stdin)["packages"] if one["publish"] != []))')
cargo package --locked "$@" "${packages[@]/#/--package=}"

failed=no
for package in "${packages[@]}"; do
    version=$(cargo metadata --format-version 1 --no-deps --locked |
        python3 -c 'import json, sys
one = next(one for one in json.load(sys.stdin)["packages"] if one["name"] == sys.argv[1])
missing = [key for key in ("description", "license", "rust_version") if not one[key]]
if missing: sys.exit(f"{sys.argv[1]}: no {missing} in its Cargo.toml")
print(one["version"])' "$package")
    bytes=$(stat -c %s "${CARGO_TARGET_DIR:-target}/package/$package-$version.crate")
    printf '%10d bytes  %s\n' "$bytes" "$package"
    [ "$bytes" -le "$limit" ] || { echo "$package: more than $limit bytes" >&2; failed=yes; }
done
[ "$failed" = no ]
