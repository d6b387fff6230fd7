# Recipes for `just`; each is one command that can be typed as well.

# The recipes
default:
    @just --list

# A gateway over simulated engines, or over what is given: just run --config policies/minimal.yaml
run *args="--simulate":
    cargo run -- serve {{ args }}

# All tests
test *args:
    cargo test {{ args }}

# All checks, as on the machine that guards the main branch
ci:
    .ci/run

# The archives of a release, with checksums and an SBOM, in dist/: just dist --target x86_64-unknown-linux-musl
dist *args:
    tools/dist.sh {{ args }}

# Client libraries against a gateway in front of a scripted model; --agents for Claude Code and Codex (tests/clients/README.md)
clients *args:
    cargo build
    python3 tests/clients/gateway.py --binary target/debug/signalbox {{ args }}

# The packages of `cargo publish`, built as they are downloaded, and their sizes
package *args:
    tools/package.sh {{ args }}

# The benchmarks
bench *args:
    cargo bench {{ args }}

# Each reader of strangers' bytes for so many seconds, on stable Rust
fuzz seconds="60":
    SIGNALBOX_FUZZ_SECONDS={{ seconds }} cargo test --test fuzz -- --nocapture

# Files of the crates that one plain streamed chat crosses, with the functions and lines that it executes in each
crossed *args:
    python3 tools/crossed.py {{ args }}

# Lines of each crate before their tests
lines:
    cargo test --quiet --test architecture lines_of_each_room -- --nocapture

# Writes the schema of policy files anew
schema:
    cargo xtask schema

# Writes the generated reference pages anew: after a change to policy keys, metrics, commands, conditions or errors
reference:
    cargo xtask reference
    git diff --stat docs/reference

# Brings every generated text and the snapshots up to date; read the difference before it is committed
update:
    cargo xtask schema
    cargo xtask reference
    INSTA_UPDATE=always SIGNALBOX_UPDATE=1 cargo test
    git diff --stat

# A thousand slow streams for so many minutes, then ten thousand clients that leave: memory, descriptors, counters
soak minutes="10":
    cargo bench --bench soak -- --minutes {{ minutes }}

# Bad times at so many requests a second: an outage, stalls, reloads, the end
storm rate="100":
    cargo bench --bench soak -- --storm {{ rate }}

# The documentation as a book in `book/`; installs mdBook where it is not there
book *args="build":
    command -v mdbook > /dev/null || cargo install mdbook --locked
    mdbook {{ args }} docs
