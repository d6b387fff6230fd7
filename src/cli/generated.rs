//! `signalbox completions` and `signalbox man`: texts that are made from the definition of the command line.

use std::{fs, io, path::Path, process::ExitCode};

use clap::Command;
use clap_complete::Shell;

use super::output;

/// Prints the completions of a shell.
pub(super) fn completions(mut command: Command, shell: Shell) -> io::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "signalbox", &mut script);
    output::print(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
}

/// Prints the manual page of the program, or writes those of all commands into a folder.
pub(super) fn man(command: Command, folder: Option<&Path>) -> io::Result<ExitCode> {
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output::print(&String::from_utf8_lossy(&page))?;
    }
    Ok(ExitCode::SUCCESS)
}
