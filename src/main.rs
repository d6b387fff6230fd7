//! The `signalbox` command.

fn main() {}
