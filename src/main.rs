//! The `signalbox` command.

use std::process::ExitCode;

/// Faster than the system's under many small allocations from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    signalbox::cli::run()
}
