//! The JSON schema with which editors complete and check policy files.

use super::raw::Document;

/// The JSON schema of policy files, as indented JSON with a final line break.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Document);
    // A schema is a JSON value, so writing it cannot fail.
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_file_is_current() {
        let kept = include_str!("../../policies/policy.schema.json");
        assert!(kept == super::schema(), "run `signalbox schema > policies/policy.schema.json`");
    }
}
