//! Configures the history: rotation, retention, and the rules for secrets.

use std::path::Path;

use super::failure::Failure;
use super::history_args::{TypedKeeping, TypedSecrets};
use super::options::Options;
use super::rule_files;
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::history::{Retention, Rotation};
use crate::redact::Rules;

/// The file with the user's rules, in the data directory.
const RULES: &str = "redact.toml";

/// Returns the builder of an engine with this configuration, and the rules for secrets.
pub(super) fn builder(
    options: &Options,
    keeping: &TypedKeeping,
    clock: &Clock,
) -> Result<(Builder, Rules), Failure> {
    let data_path = options.data_path()?;
    // The user's rules also apply without a log.
    let home = options.home().ok();
    let rules = keeping
        .secrets
        .rules(data_path.as_deref().or(home.as_deref()))?;
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

/// Returns the failure for an engine that cannot be started. An unusable data directory is bad input.
pub(super) fn unusable(error: crate::Error) -> Failure {
    unusable_unless(error, ", or --no-log")
}

/// Returns the failure for a data directory that the command needs and cannot use.
pub(super) fn unusable_directory(error: crate::Error) -> Failure {
    unusable_unless(error, "")
}

fn unusable_unless(error: crate::Error, alternative: &str) -> Failure {
    if error.path().is_some() {
        usage!("{error:?}; choose another with --data-dir{alternative}")
    } else {
        error.into()
    }
}

/// Starts an engine with this configuration, for an execution with this id, and returns the rules for secrets.
pub(super) fn start(
    options: &Options,
    keeping: &TypedKeeping,
    id: Option<&str>,
    clock: &Clock,
) -> Result<(Engine, Rules), Failure> {
    let (builder, rules) = builder(options, keeping, clock)?;
    check_id(&rules, id)?;
    let engine = builder.start().map_err(unusable)?;
    Ok((engine, rules))
}

/// Refuses an id that contains a secret, because it is the name of a directory and part of every event.
fn check_id(rules: &Rules, id: Option<&str>) -> Result<(), Failure> {
    match id.map(|id| (id, rules.text(id))) {
        Some((id, redacted)) if redacted != id => Err(usage!(
            "--execution-id: the id contains a secret ({redacted}); choose another one"
        )),
        _ => Ok(()),
    }
}

impl TypedSecrets {
    pub(super) fn rules(&self, data_dir: Option<&Path>) -> Result<Rules, Failure> {
        if self.no_redact {
            return Ok(Rules::none());
        }
        let rules = self.rules_of_files(data_dir)?;
        if self.redact_env.is_empty() && self.redact_env_file.is_empty() {
            return Ok(rules);
        }
        let mut files = Vec::new();
        for path in &self.redact_env_file {
            let text =
                rule_files::read(path)?.ok_or_else(|| usage!("{path:?}: there is no such file"))?;
            files.push(text);
        }
        // Observed text cannot contain a value that is not text.
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let (rules, short) = rules
            .with_variables(&self.redact_env, environment, &files)
            .map_err(|error| usage!("--redact-env: {error}"))?;
        if !short.is_empty() {
            message!(
                "too short to be redacted: the value of {}",
                crate::face::one_line(&short.join(", "))
            );
        }
        Ok(rules)
    }

    /// Returns the built-in rules and those of the user's file.
    fn rules_of_files(&self, data_dir: Option<&Path>) -> Result<Rules, Failure> {
        let default = data_dir.map(|path| path.join(RULES));
        let (path, is_required) = match (&self.redact, &default) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(Rules::builtin()),
        };
        let text = match rule_files::read(path)? {
            Some(text) => text,
            None if is_required => {
                return Err(usage!("{path:?}: there is no such file"));
            }
            None => return Ok(Rules::builtin()),
        };
        Rules::builtin()
            .with_toml(&text)
            .map_err(|error| usage!("{path:?}: {error:?}"))
    }
}

impl TypedKeeping {
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
