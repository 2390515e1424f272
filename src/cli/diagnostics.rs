//! Diagnostics: what the library logs, on standard error, one safe line each.

use std::io::{IsTerminal, Write};

use env_logger::{Builder, Target};
use log::LevelFilter;

#[cfg(feature = "http")]
use crate::agent_loop::SECRET_LOG_TARGETS;
use crate::face::one_line;

/// Starts the diagnostics: warnings, more with `-v`, or as `RUST_LOG` selects; in place of standard error
/// on `out`.
pub(super) fn start(verbose: u8, out: Option<Box<dyn Write + Send>>) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    // On a terminal that shows events too, the live line gives way; it comes back with the next
    // event.
    let shares_terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
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
    // These targets record API keys. They are module paths in full, so that no filter of `RUST_LOG`
    // is more specific.
    #[cfg(feature = "http")]
    for target in SECRET_LOG_TARGETS {
        builder.filter_module(target, LevelFilter::Off);
    }
    // An embedding program that has a logger already keeps it.
    let _ = builder.try_init();
}
