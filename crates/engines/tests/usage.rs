//! The forms of `usage` in the profiles, against the reader that charges by them.

use serde_json::{Value, json};

use signalbox_engines::PROFILES;
use signalbox_protocol::usage::UsageReport;

/// A `usage` object with 7 at `path`.
fn usage(path: &str) -> String {
    let mut usage = json!({ "prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150 });
    let member = path.split('.').fold(&mut usage, |at: &mut Value, name| &mut at[name]);
    *member = json!(7);
    usage.to_string()
}

#[test]
fn each_form_of_usage_is_read() {
    for profile in PROFILES {
        let read = |path: &str| UsageReport::read(&usage(path)).expect("counts of tokens");
        let form = profile.usage;
        form.cached.iter().for_each(|path| assert_eq!(read(path).cached(), Some(7), "{}: {path}", profile.name));
        form.written.iter().for_each(|path| assert_eq!(read(path).written(), Some(7), "{}: {path}", profile.name));
        form.reasoning.iter().for_each(|path| assert_eq!(read(path).reasoning(), Some(7), "{}: {path}", profile.name));
    }
}
