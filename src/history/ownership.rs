//! Refuses directories and files that another user owns or can write to, as OpenSSH and git do.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result, if_exists};

/// The mode bits with which users other than the owner can write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The owners whose files are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustedOwner {
    /// Only the user who runs the program; required for directories that it writes to.
    User,
    /// The user, or root for files that an administrator installed for all users.
    #[cfg(any(feature = "cli", feature = "kernel"))]
    UserOrRoot,
}

impl TrustedOwner {
    /// Checks the owner and the mode of an open or listed file.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if another user owns it, or its group or everyone can write to it.
    pub(crate) fn check(self, path: &Path, metadata: &Metadata) -> Result<()> {
        let user = rustix::process::geteuid().as_raw();
        self.check_for(user, path, metadata.uid(), metadata.mode())
    }

    fn check_for(self, user: u32, path: &Path, owner: u32, mode: u32) -> Result<()> {
        let is_trusted = match self {
            Self::User => owner == user,
            #[cfg(any(feature = "cli", feature = "kernel"))]
            Self::UserOrRoot => owner == user || owner == 0,
        };
        if !is_trusted {
            return Err(Error::invalid(format!(
                "refused, because it belongs to another user (uid {owner}, yours is {user}):"
            ))
            .at(path));
        }
        if mode & WRITABLE_BY_OTHERS != 0 {
            return Err(Error::invalid(
                "refused, because other users can write to it; chmod go-w makes it private:",
            )
            .at(path));
        }
        Ok(())
    }

    /// Checks a directory, following symbolic links. A missing directory is accepted, because the caller
    /// creates it or has nothing to read.
    ///
    /// # Errors
    /// Those of [`TrustedOwner::check`], or if the directory cannot be reached.
    pub(super) fn check_directory(self, path: &Path) -> Result<()> {
        let metadata = if_exists(fs::metadata(path))
            .map_err(|cause| Error::file("cannot reach", path, cause))?;
        metadata.map_or(Ok(()), |metadata| self.check(path, &metadata))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_owners_and_writers_are_refused() {
        let path = Path::new("/data");
        let check = |user, owner, mode| TrustedOwner::User.check_for(user, path, owner, mode);
        assert!(check(7, 7, 0o40700).is_ok());
        assert!(check(7, 7, 0o40755).is_ok());
        for (owner, mode, text) in [
            (8, 0o40700, "another user (uid 8, yours is 7)"),
            (0, 0o40755, "another user (uid 0, yours is 7)"),
            (7, 0o40777, "other users can write"),
            (7, 0o40770, "other users can write"),
            (7, 0o41777, "other users can write"),
        ] {
            let error = check(7, owner, mode).unwrap_err();
            assert!(error.is_invalid_input());
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains("/data"), "{error}");
        }
    }

    #[cfg(any(feature = "cli", feature = "kernel"))]
    #[test]
    fn files_of_root_are_accepted_where_an_administrator_may_install_them() {
        let check = |owner, mode| {
            TrustedOwner::UserOrRoot.check_for(7, Path::new("/etc/rules.toml"), owner, mode)
        };
        assert!(check(0, 0o100644).is_ok());
        assert!(check(7, 0o100600).is_ok());
        assert!(check(8, 0o100644).is_err());
        assert!(check(0, 0o100666).is_err());
    }
}
