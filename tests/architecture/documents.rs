//! Checks the documents: a README of one sitting, and no paths of somebody's machine.

use super::ratchet::Count;

/// The longest the README may be.
const README_LINES: usize = 250;

/// Folders of somebody's machine.
const MACHINE: [&str; 3] = ["/home/", "/root/", "/Users/"];

/// The lines of the README, where they are too many.
pub(crate) fn counts(readme: &str) -> Vec<Count> {
    let number = readme.lines().count();
    let breaches =
        vec![format!("README.md: {README_LINES} lines are allowed: move what is below the overview to `docs/`")];
    let count = Count { rule: "readme", place: "README.md".to_owned(), number, breaches };
    if number > README_LINES { vec![count] } else { Vec::new() }
}

/// The lines of a document that name a folder of somebody's machine.
pub(crate) fn machine_paths(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in MACHINE {
            let absolute =
                |(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-~}".contains(before));
            if line.match_indices(folder).any(absolute) {
                found
                    .push(format!("{file}:{}: `{folder}…` is a path of one machine: write a relative one", number + 1));
            }
        }
    }
    found
}

#[test]
fn long_readmes_and_machine_paths_are_found() {
    assert_eq!(counts(&"line\n".repeat(README_LINES)).len(), 0);
    assert_eq!(counts(&"line\n".repeat(README_LINES + 1))[0].number, 251);
    assert_eq!(machine_paths("README.md", "run `/home/me/x`\nsee (/root/main)\n").len(), 2);
    assert_eq!(machine_paths("README.md", "https://x.org/home/page, ~/home/x, /etc/signalbox").len(), 0);
}
