//! The arguments of `td-observe kernel`.

use std::path::PathBuf;

use clap::ValueHint;
use clap_complete::engine::ArgValueCandidates;

use super::known;
use super::options::{TypedKeeping, parse_execution_id};

const EXAMPLES: &str = "\
Examples:
  td-observe kernel -c 'print(1)'                code on a new kernel of python3
  td-observe kernel analysis.py                  a file
  td-observe kernel analysis.ipynb --save        cell by cell; saved as
                                                 NAME.executed.ipynb
  td-observe kernel --connection kernel-1234.json -c 'len(data)'
                                                 on a kernel that runs
  td-observe kernel --connection kernel-1234.json
                                                 show what its clients run
  td-observe kernel --json job.ipynb | jq -j '.event.text // empty'
  td-observe log analysis.ipynb                  what the last run printed

The output of the code is shown as it is printed. On a terminal, standard error is
marked [stderr], and the code may ask (input()). Elsewhere both outputs are passed
on unchanged, secrets included. The history is always redacted.

Ctrl-C interrupts the code. A kernel that td-observe started then ends; any other
stays usable. Without code, Ctrl-C only stops listening.

Exit codes: 0; 1 after an exception, or when the kernel ended; 2 wrong usage; 127
the kernel's program is missing; 130 interrupted.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TypedKernel {
    /// Code to run: a file, a notebook (.ipynb), or - for standard input. Without code, td-observe
    /// listens
    #[arg(value_name = "FILE", conflicts_with = "code", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Run this code
    #[arg(short = 'c', value_name = "CODE")]
    pub code: Option<String>,
    /// Use the kernel with this connection file: a path, or a name in Jupyter's runtime directory
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "kernel",
        add = ArgValueCandidates::new(known::connections)
    )]
    pub connection: Option<String>,
    /// Start this kernel: a name, or the directory of its kernel.json [default: the notebook's, or python3]
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Write the notebook with its new outputs to this file [default: NAME.executed.ipynb]
    #[arg(long, value_name = "FILE", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    pub save: Option<Option<PathBuf>>,
    /// Continue after cells that fail
    #[arg(long)]
    pub allow_errors: bool,
    /// Show and keep at most N lines; a warning marks the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    /// The name of the run [default: FILE@SECONDS or KERNEL@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Begin each line with the local time
    #[arg(long)]
    pub timestamps: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
