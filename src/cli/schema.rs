//! `td-observe schema`: prints the JSON Schema of events, or of reports.

use std::process::ExitCode;

use super::failure::Failure;
use super::output;

/// The schemas that `schema` prints.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum SchemaOf {
    /// The envelopes of logs and streams, and the board
    #[default]
    Events,
    /// The report, as report --json prints it
    #[cfg(feature = "report")]
    Report,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/schema.txt").trim_end())]
pub(super) struct TypedSchema {
    /// What the schema describes
    #[arg(value_enum, default_value_t)]
    pub of: SchemaOf,
}

/// Prints the schema.
pub(super) fn run(typed: &TypedSchema) -> Result<ExitCode, Failure> {
    let schema = match typed.of {
        SchemaOf::Events => crate::board::json_schema(),
        #[cfg(feature = "report")]
        SchemaOf::Report => crate::face::report::json_schema(),
    };
    let mut text = serde_json::to_string_pretty(&schema)
        .map_err(|error| failure!("cannot write the schema: {error}"))?;
    text.push('\n');
    output::print(&text)
}
