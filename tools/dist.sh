#!/usr/bin/env bash
# Builds the archives of a release:
#
#     tools/dist.sh [--target TRIPLE] [--binary FILE] [--out FOLDER]
#
# FOLDER (dist/) then has, for the target (this machine's):
#   signalbox-VERSION-TARGET.tar.gz        the stripped binary, completions, manual pages, policies, licences, README
#   signalbox-VERSION-TARGET.debug.gz      its line tables, for debuggers
#   signalbox-VERSION-TARGET.cdx.json      its parts, as a CycloneDX SBOM
#   SHA256SUMS                             checksums of all files there
# `--binary` packs a binary that was built before. Equal sources and tools make equal archives. Needs binutils, GNU tar,
# Python 3.11 and, to build, Rust, a C compiler and make. The binary has to run on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

target='' binary='' out=dist
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2 ;;
        --binary) binary=$2 ;;
        --out) out=$2 ;;
        *) echo "usage: tools/dist.sh [--target TRIPLE] [--binary FILE] [--out FOLDER]" >&2; exit 2 ;;
    esac
    shift 2
done
host=$(rustc -vV | sed -n 's/^host: //p')
target=${target:-$host}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=signalbox-$version-$target
# Every file has the time of the last commit, so that the archive depends on the sources alone.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}

if [ -z "$binary" ]; then
    # Kernels for arm64 have pages of up to 64 KB: the allocator must not take those of this machine for granted.
    case $target in aarch64*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac
    # Paths of this machine would differ from those of another.
    export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=signalbox --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    cargo build --locked --profile dist --bin signalbox --target "$target"
    binary=${CARGO_TARGET_DIR:-target}/$target/dist/signalbox
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name
mkdir -p "$root/completions" "$out"
objcopy --only-keep-debug --compress-debug-sections "$binary" "$work/$name.debug"
objcopy --strip-all "$binary" "$root/signalbox"
(cd "$work" && objcopy --add-gnu-debuglink="$name.debug" "$root/signalbox")
chmod 755 "$root/signalbox"

signalbox=$root/signalbox
"$signalbox" --version
"$signalbox" completions bash > "$root/completions/signalbox.bash"
"$signalbox" completions zsh > "$root/completions/_signalbox"
"$signalbox" completions fish > "$root/completions/signalbox.fish"
"$signalbox" completions elvish > "$root/completions/signalbox.elv"
"$signalbox" completions powershell > "$root/completions/_signalbox.ps1"
"$signalbox" man --out "$root/man"
cp README.md LICENSE CHANGELOG.md "$root"
cp -r policies "$root/policies"
python3 tools/sbom.py --target "$target" --sbom "$out/$name.cdx.json" --licences "$root/THIRD-PARTY-LICENCES.txt"

chmod -R u=rwX,go=rX "$root"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -C "$work" -cf - "$name" |
    gzip -9n > "$out/$name.tar.gz"
gzip -9n < "$work/$name.debug" > "$out/$name.debug.gz"
(cd "$out" && find . -maxdepth 1 -name 'signalbox-*' -printf '%f\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS)

stat -c '%s bytes  %n' "$root/signalbox" "$out/$name".* | sed "s|$work/||"
cat "$out/SHA256SUMS"
