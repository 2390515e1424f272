//! Diagnostics: prints the log records of the library on standard error, each as one sanitized line.

use std::io::{IsTerminal, Write};

use env_logger::{Builder, Target};
use log::LevelFilter;

#[cfg(feature = "http")]
use crate::agent_loop::SECRET_LOG_TARGETS;
use crate::face::one_line;

/// Starts the diagnostics: warnings by default, more with `-v` or `RUST_LOG`. `out` replaces standard error.
pub(super) fn start(verbose: u8, out: Option<Box<dyn Write + Send>>) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    // On a terminal that also shows events, a record erases the live line; the next event redraws it.
    let shares_terminal =
        out.is_none() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
    let start = if shares_terminal { "\r\x1b[K" } else { "" };
    let mut builder = Builder::new();
    builder
        .filter_level(level)
        .target(out.map_or(Target::Stderr, Target::Pipe))
        .format(move |out, record| {
            writeln!(
                out,
                "{start}td-observe: {}",
                one_line(&record.args().to_string())
            )
        });
    if let Ok(filters) = std::env::var("RUST_LOG") {
        builder.parse_filters(&filters);
    }
    // These targets log API keys. They are full module paths, so no filter in `RUST_LOG` is more specific.
    #[cfg(feature = "http")]
    for target in SECRET_LOG_TARGETS {
        builder.filter_module(target, LevelFilter::Off);
    }
    // An embedding program keeps the logger that it has already installed.
    let _ = builder.try_init();
}
