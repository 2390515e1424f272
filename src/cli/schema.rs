//! `td-observe schema`: prints the JSON Schema of the program's output for other programs.

use std::process::ExitCode;

use super::failure::Failure;

pub(super) const EXAMPLES: &str = "\
Examples:
  td-observe schema > td-observe.schema.json
  td-observe schema | jq '.\"$defs\".OutputGap'     one type of event
  td-observe schema | jq -r '.\"$defs\" | keys[]'   all of them

Each line of a log, and of --json where it prints envelopes, is an instance of
the schema (draft 2020-12); each line of status --json is one of its BoardRow.
The observer's API has the same at /api/v1/schema. Later versions add events,
fields and values, so the schema accepts unknown ones. See td-observe help events.";

pub(super) fn run() -> Result<ExitCode, Failure> {
    let mut text = serde_json::to_string_pretty(&crate::board::json_schema())
        .map_err(|error| failure!("cannot write the schema: {error}"))?;
    text.push('\n');
    super::output::print(&text)
}
