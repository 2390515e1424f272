//! The history's configuration: rotation, retention, and the rules for secrets.

use std::path::Path;

use super::failure::Failure;
use super::history_args::TypedKeeping;
use super::options::Options;
use super::rule_files;
use crate::clock::Clock;
use crate::engine::Builder;
use crate::history::{Retention, Rotation};
use crate::redact::Rules;

/// Rules of the user's own, in the data directory.
const RULES: &str = "redact.toml";

/// Creates an engine with this configuration, not started yet, and the rules for secrets.
pub(super) fn builder(
    options: &Options,
    keeping: &TypedKeeping,
    clock: &Clock,
) -> Result<(Builder, Rules), Failure> {
    let data_path = options.data_path()?;
    let rules = keeping.rules(data_path.as_deref())?;
    let mut builder = Builder::new()
        .sync(keeping.sync)
        .rotation(keeping.rotation())
        .retention(keeping.retention())
        .redact(rules.clone())
        .clock(clock.clone());
    if let Some(path) = data_path {
        builder = builder.data_dir(path);
    }
    Ok((builder, rules))
}

/// A data directory that cannot be used is bad input.
pub(super) fn unusable(error: crate::Error) -> Failure {
    if error.path().is_some() {
        Failure::usage(format!(
            "{error:?}; choose another with --data-dir, or --no-log"
        ))
    } else {
        error.into()
    }
}

impl TypedKeeping {
    /// Returns the rules for secrets.
    fn rules(&self, data_dir: Option<&Path>) -> Result<Rules, Failure> {
        if self.no_redact {
            return Ok(Rules::none());
        }
        let usual = data_dir.map(|path| path.join(RULES));
        let (path, is_asked) = match (&self.redact, &usual) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(Rules::builtin()),
        };
        let text = match rule_files::read(path)? {
            Some(text) => text,
            None if is_asked => {
                return Err(Failure::usage(format!("{path:?}: there is no such file")));
            }
            None => return Ok(Rules::builtin()),
        };
        Rules::builtin()
            .with_toml(&text)
            .map_err(|error| Failure::usage(format!("{path:?}: {error:?}")))
    }

    fn rotation(&self) -> Rotation {
        Rotation {
            bytes_max: self.rotate_size.0.unwrap_or(u64::MAX),
            age_max: self.rotate_age.0,
        }
    }

    fn retention(&self) -> Retention {
        Retention {
            age_max: self.keep_age,
            runs_max: self.keep_runs,
            bytes_max: self.keep_size.0,
        }
    }
}
