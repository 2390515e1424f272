//! The one error of the library: opaque, with questions to ask it, its cause and its path kept.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What every fallible function of the library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Something that failed. Its text says what, where and, where that helps, what to do.
pub struct Error {
    kind: Kind,
    what: Cow<'static, str>,
    path: Option<PathBuf>,
    cause: Option<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Other,
    Timeout,
    Gone,
    Invalid,
    Locked,
    Missing,
}

impl Error {
    fn new(kind: Kind, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            what: what.into(),
            path: None,
            cause: None,
        }
    }

    /// Anything that no question is asked about.
    pub(crate) fn other(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Other, what)
    }

    /// A deadline passed.
    pub(crate) fn timeout(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Timeout, what)
    }

    /// What was asked of is no longer there: a server, a session, a pane, a bus.
    pub(crate) fn gone(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Gone, what)
    }

    /// The caller gave something that cannot be used.
    pub(crate) fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, what)
    }

    /// Another process holds it.
    pub(crate) fn locked(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Locked, what)
    }

    /// A program that is needed is not installed.
    pub(crate) fn missing(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Missing, what)
    }

    /// An operation on a file that the system refused.
    pub(crate) fn file(what: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::other(what).at(path).because(cause)
    }

    /// Adds the path that the error is about.
    pub(crate) fn at(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Adds the cause.
    pub(crate) fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Copies the error for another reader: its kind and its text, without the cause.
    pub(crate) fn without_cause(&self) -> Self {
        Self::new(self.kind, self.to_string())
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        self.kind == Kind::Timeout
    }

    /// Whether the server, session, pane or bus is no longer there.
    pub fn is_gone(&self) -> bool {
        self.kind == Kind::Gone
    }

    /// Whether the caller gave something that cannot be used.
    pub fn is_invalid_input(&self) -> bool {
        self.kind == Kind::Invalid
    }

    /// Whether another process holds what was asked for.
    pub fn is_locked(&self) -> bool {
        self.kind == Kind::Locked
    }

    /// Whether a program that is needed is not installed.
    pub fn is_missing_program(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// The file or directory that the error is about.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(path) = &self.path {
            write!(f, " {path:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause
            .as_deref()
            .map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}
