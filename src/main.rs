//! The `signalbox` command.

use std::process::ExitCode;

/// Gives memory back to the system within seconds after many streams have left, from a thread of its own.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    signalbox::cli::run()
}
