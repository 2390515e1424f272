//! Selects the runs that `log` reads: one, several, or all.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::history::{Which, data_dir};
use super::options::Options;
use crate::history::{DataDir, RunDirectory, glob_matches, is_glob};

/// The typed names and patterns.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub typed: Vec<PathBuf>,
}

impl Selection {
    /// Returns the selected logs without duplicates; without a name, all runs. A name with `*` or `?` is a
    /// pattern, unless a run has exactly this name.
    ///
    /// # Errors
    /// If a name or pattern matches no run.
    pub fn resolve(&self, options: &Options) -> Result<Vec<Which>, Failure> {
        if self.is_all() {
            let runs = data_dir(options)?.matching_runs(|_| true)?;
            return Ok(runs.into_iter().map(Which::Run).collect());
        }
        let mut found: Vec<Which> = Vec::new();
        for typed in &self.typed {
            let runs = match glob(typed) {
                Some(glob) if Which::typed(typed, options).is_err() => {
                    let runs = data_dir(options)?.matching_runs(|name| glob_matches(glob, name))?;
                    if runs.is_empty() {
                        return Err(usage!(
                            "no run matches {typed:?}; td-observe runs lists them"
                        ));
                    }
                    runs.into_iter().map(Which::Run).collect()
                }
                _ => vec![Which::typed(typed, options)?],
            };
            for which in runs {
                if !found.iter().any(|known| known.path() == which.path()) {
                    found.push(which);
                }
            }
        }
        Ok(found)
    }

    pub fn is_all(&self) -> bool {
        self.typed.is_empty()
    }

    /// Returns true if the selection may include runs that begin later.
    pub fn is_open(&self) -> bool {
        self.is_all() || self.typed.iter().any(|typed| glob(typed).is_some())
    }

    /// Returns the present runs of an open selection.
    pub fn runs_in(&self, data: &DataDir) -> Result<Vec<RunDirectory>, Failure> {
        let globs: Vec<&str> = self.typed.iter().filter_map(|typed| glob(typed)).collect();
        let is_wanted =
            |name: &str| self.is_all() || globs.iter().any(|glob| glob_matches(glob, name));
        Ok(data.matching_runs(is_wanted)?)
    }
}

/// Returns a name as a pattern; `None` if it contains no wildcard.
fn glob(typed: &Path) -> Option<&str> {
    typed.to_str().filter(|text| is_glob(text))
}
