//! `signalbox import`: translates the configuration of another gateway into a policy.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{examples, output};
use signalbox_config::{Problem, plain, read_limited};
use signalbox_migration::{self as migration, Imported, Kind, Note, Variable};

/// The exit code for settings without a counterpart, with `--strict`.
const GAPS: u8 = 3;
/// Largest included file, in bytes.
const LARGEST_INCLUDE: usize = 4 << 20;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Translate LiteLLM's config.yaml, and list what has no counterpart
    ///
    /// The policy goes to standard output or to a file, with comments; the list goes to standard error. Keys in plain
    /// text are replaced by variables, which the list names with their lines.
    ///
    /// Exit codes: 0 if the policy was written; 1 if the configuration cannot be read or none of its deployments has a
    /// counterpart; 3 if `--strict` is given and something has no counterpart (the policy is written all the same).
    #[command(after_help = examples::IMPORT)]
    Litellm(Args),
}

/// Arguments of `import litellm`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// LiteLLM's configuration
    file: PathBuf,
    /// The policy to write, instead of standard output; a file that exists is not replaced
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Exit with 3 if something has no counterpart
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(command: &Command) -> io::Result<ExitCode> {
    let Command::Litellm(args) = command;
    let name = args.file.display();
    let failed = |error: &io::Error| {
        output::complain(&format!("signalbox: {name}: {}\n", plain(error)));
        ExitCode::FAILURE
    };
    let text = match fs::read_to_string(&args.file) {
        Ok(text) => text,
        Err(error) => return Ok(failed(&error)),
    };
    let folder = args.file.parent().map(Path::to_path_buf).unwrap_or_default();
    let include = |path: &str| read_limited(&folder.join(path), LARGEST_INCLUDE);
    let file = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let imported = match migration::from_litellm(&file, &text, &include) {
        Ok(imported) => imported,
        Err(problem) => {
            output::complain(&complaint(&name.to_string(), &text, &problem));
            return Ok(ExitCode::FAILURE);
        }
    };
    match &args.output {
        None => output::print(&imported.policy)?,
        Some(path) => {
            if let Err(error) = write(path, &named(&imported.policy, path), args.force) {
                output::complain(&format!("signalbox: {}: {}\n", path.display(), plain(&error)));
                if error.kind() == io::ErrorKind::AlreadyExists {
                    output::complain("  help: name another file, or replace this one with `--force`\n");
                }
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    output::complain(&report(&file, args.output.as_deref(), &imported));
    let has_gaps = imported.of(Kind::Gap).next().is_some();
    Ok(if args.strict && has_gaps { ExitCode::from(GAPS) } else { ExitCode::SUCCESS })
}

/// The policy with its own path in the commands of its comment.
fn named(policy: &str, path: &Path) -> String {
    let path = path.display();
    let checked = policy.replacen("signalbox check policy.yaml", &format!("signalbox check {path}"), 1);
    checked.replacen("--config policy.yaml", &format!("--config {path}"), 2)
}

fn write(path: &Path, policy: &str, force: bool) -> io::Result<()> {
    if force {
        return fs::write(path, policy);
    }
    let mut file = fs::File::create_new(path)?;
    io::Write::write_all(&mut file, policy.as_bytes())
}

/// The error, without lines of the file: they may contain keys.
fn complaint(name: &str, text: &str, problem: &Problem) -> String {
    let before = problem.at.and_then(|at| text.get(..at.start)).unwrap_or_default();
    let place = match problem.at.filter(|at| at.start > 0) {
        Some(_) => {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("{name}:{line}:{column}")
        }
        None => name.to_owned(),
    };
    let help = problem.help.as_deref().map(|help| format!("  help: {}\n", help.replace('\n', "\n        ")));
    format!("signalbox: {place}: {}\n{}", problem.message, help.unwrap_or_default())
}

/// The summary: counts, remarks by kind, and the variables to set.
fn report(file: &str, policy: Option<&Path>, imported: &Imported) -> String {
    let (kept, all) = imported.deployments;
    let to = policy.map(|path| format!(" into {}", path.display())).unwrap_or_default();
    let mut text = format!("{file}: {kept} of {all} deployments translated{to}\n");
    for (kind, title) in [
        (Kind::Gap, "without a counterpart"),
        (Kind::Differs, "translated, but working differently"),
        (Kind::BuiltIn, "done without a setting"),
    ] {
        let notes: Vec<_> = imported.of(kind).collect();
        if !notes.is_empty() {
            let _ = write!(text, "\n{title} ({}):\n", notes.len());
            for note in notes {
                text += &remark(file, note);
            }
        }
    }
    if !imported.variables.is_empty() {
        text += "\nenvironment variables to set:\n";
        for variable in &imported.variables {
            text += &needed(file, variable);
        }
    }
    if let Some(path) = policy {
        let _ = write!(text, "\nnext: signalbox check {}\n", path.display());
    }
    text
}

fn remark(file: &str, note: &Note) -> String {
    let at = if note.line > 0 { format!("{file}:{}", note.line) } else { file.to_owned() };
    // Names come from the file; a terminal must not take parts of them for commands.
    let plain: String = format!("{at}: {}: {}", note.place, note.text)
        .chars()
        .map(|it| if it.is_control() || is_direction(it) { '\u{fffd}' } else { it })
        .collect();
    format!("  {plain}\n")
}

/// True for characters that change the direction of text.
fn is_direction(it: char) -> bool {
    matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn needed(file: &str, variable: &Variable) -> String {
    let origin = match (variable.plain_at, variable.purpose) {
        (Some(line), _) if line > 0 => format!(" (the value at {file}:{line})"),
        (Some(_), _) => " (the value in an included file)".to_owned(),
        (None, Some(purpose)) => format!(" ({purpose})"),
        (None, None) => String::new(),
    };
    format!("  {}{origin}\n", variable.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_print_no_control_characters() {
        let note = Note { kind: Kind::Gap, line: 3, place: "a\u{1b}[2Jb".into(), text: "x\n\u{202e}y".into() };
        assert_eq!(remark("c.yaml", &note), "  c.yaml:3: a\u{fffd}[2Jb: x\u{fffd}\u{fffd}y\n");
    }

    #[test]
    fn the_comment_names_the_file() {
        let text = "#   signalbox check policy.yaml\n#   signalbox serve --config policy.yaml\n";
        let named = named(text, Path::new("gw.yaml"));
        assert_eq!(named, "#   signalbox check gw.yaml\n#   signalbox serve --config gw.yaml\n");
    }
}
