//! `td-observe export`: a run as a recording for terminals, or as text.

use std::process::ExitCode;

use super::failure::Failure;
use super::history_args::TypedExport;
use super::options::Options;

pub(super) fn run(_options: &Options, _typed: TypedExport) -> Result<ExitCode, Failure> {
    Err(Failure::other("not yet"))
}
