//! The schema that editors complete and check policy files with.

use super::raw::Document;

/// The JSON schema of policy files, as pretty JSON with a last line break.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Document);
    // A schema is a JSON value to begin with: writing it cannot fail.
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_beside_the_policies_is_fresh() {
        let kept = include_str!("../../policies/policy.schema.json");
        assert!(kept == super::schema(), "run `signalbox schema > policies/policy.schema.json`");
    }
}
