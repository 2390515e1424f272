//! The error type of the library: opaque, with methods to classify it, a path and a cause.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of fallible functions of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns `None` for what does not exist.
pub(crate) fn if_exists<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The error of a failed operation. Its text states the operation, its object and, where useful, a remedy.
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    path: Option<PathBuf>,
    cause: Option<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    Other,
    Timeout,
    Gone,
    Invalid,
    Locked,
    Missing,
}

impl Error {
    fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            path: None,
            cause: None,
        }
    }

    /// Creates an error of no specific kind.
    pub(crate) fn other(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Other, message)
    }

    /// Creates an error for an expired deadline.
    pub(crate) fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Timeout, message)
    }

    /// Creates an error for a server, session, pane or bus that no longer exists.
    pub(crate) fn gone(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Gone, message)
    }

    /// Creates an error for invalid input from the caller.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an error for a resource that another process holds.
    pub(crate) fn locked(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Locked, message)
    }

    /// Creates an error for a required program that is not installed.
    pub(crate) fn missing(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Missing, message)
    }

    /// Creates an error for a failed operation on a file.
    pub(crate) fn file(message: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::other(message).at(path).because(cause)
    }

    /// Adds the path of the file or directory.
    pub(crate) fn at(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Adds the cause.
    pub(crate) fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Copies the error for another recipient: its kind and its text, without the cause.
    pub(crate) fn without_cause(&self) -> Self {
        Self::new(self.kind, self.to_string())
    }

    /// Returns true if a deadline expired.
    pub fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// Returns true if the server, session, pane or bus no longer exists.
    pub fn is_gone(&self) -> bool {
        self.kind == ErrorKind::Gone
    }

    /// Returns true if the caller's input is invalid.
    pub fn is_invalid_input(&self) -> bool {
        self.kind == ErrorKind::Invalid
    }

    /// Returns true if another process holds the resource.
    pub fn is_locked(&self) -> bool {
        self.kind == ErrorKind::Locked
    }

    /// Returns true if a required program is not installed.
    pub fn is_missing_program(&self) -> bool {
        self.kind == ErrorKind::Missing
    }

    /// Returns the file or directory that the error refers to.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
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
