//! Writes the report of an agent's hook to the file of its session.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::hooks::{HookFiles, file_of, pid_namespace};
use crate::agent::{HookChange, HookFile, HookInput};
use crate::process::ancestors;
use crate::redact::Rules;
use crate::timestamp::Timestamp;

impl HookFiles {
    /// Takes the input of a hook.
    ///
    /// # Errors
    /// When no directory can be written to.
    pub fn report(&self, input: &[u8], now: Timestamp) -> io::Result<()> {
        let Some(input) = HookInput::read(input) else {
            return Ok(());
        };
        let session = input.session_id();
        // Hooks of parallel tools each change the same file.
        let _locked = self.lock(session);
        let before = self.read(session);
        match input.change(before.as_ref(), now, &Rules::builtin()) {
            HookChange::Nothing => Ok(()),
            HookChange::Keep(mut file) => {
                file.ancestors = ancestors();
                file.pid_namespace = pid_namespace();
                self.write(&file)
            }
            HookChange::Remove => {
                for directory in &self.directories {
                    // The files may not exist.
                    let _ = fs::remove_file(file_of(directory, session));
                    let _ = fs::remove_file(lock_of(directory, session));
                }
                self.remove_stale(now);
                Ok(())
            }
        }
    }

    /// Waits until no other hook of the session changes its file. Without a lock, a change may be lost.
    fn lock(&self, session: &str) -> Option<File> {
        let mut files = self.directories.iter().filter_map(|directory| {
            create(directory).ok()?;
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(lock_of(directory, session))
                .ok()
        });
        let file = files.next()?;
        // The agent ends a hook that waits for too long.
        flock(&file, FlockOperation::LockExclusive).ok()?;
        Some(file)
    }

    fn write(&self, file: &HookFile) -> io::Result<()> {
        let text = serde_json::to_vec(file).map_err(io::Error::other)?;
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for directory in &self.directories {
            match write(directory, file, &text) {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Removes the files of sessions that were killed long ago.
    fn remove_stale(&self, now: Timestamp) {
        let now = now.seconds();
        let is_stale = |path: &PathBuf| {
            let modified = fs::metadata(path).map(|metadata| metadata.mtime());
            // Files of sessions that were killed are removed after a week.
            modified.is_ok_and(|at| now.saturating_sub(at) > 7 * 24 * 60 * 60)
        };
        for path in self.files().filter(is_stale) {
            // Another hook may have removed it.
            let _ = fs::remove_file(path.with_extension(LOCK_EXTENSION));
            let _ = fs::remove_file(path);
        }
    }
}

/// The extension of the file that is locked while a session's report changes.
const LOCK_EXTENSION: &str = "lock";

fn lock_of(directory: &Path, session: &str) -> PathBuf {
    directory.join(format!("{session}.{LOCK_EXTENSION}"))
}

fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// Replaces the file atomically, and makes it readable by its owner only.
fn write(directory: &Path, file: &HookFile, text: &[u8]) -> io::Result<()> {
    create(directory)?;
    let session = &file.session_id;
    // No other running hook uses this name.
    let new = directory.join(format!(".{session}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut opened| opened.write_all(text))
        .and_then(|()| fs::rename(&new, file_of(directory, session)));
    if written.is_err() {
        // This also removes a file that an earlier process with the same pid has left.
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn event(session: &str, name: &str, cwd: &str) -> String {
        format!(r#"{{"session_id":"{session}","hook_event_name":"{name}","cwd":"{cwd}"}}"#)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_report_is_readable_until_the_session_ends() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().to_owned();
        let files = HookFiles::of(|name| (name == "HOME").then(|| home.clone().into()));
        files
            .report(event("s", "Stop", "/w").as_bytes(), at(1))
            .unwrap();
        let state = files.read("s").unwrap().claim().unwrap().state;
        assert_eq!(state.as_str(), "done");
        let directory = home.join(".local/state/td-observe/hooks");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("s.json")), 0o600);
        files
            .report(event("s", "SessionEnd", "/w").as_bytes(), at(2))
            .unwrap();
        assert_eq!(files.read("s"), None);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        for wrong in [
            "",
            "{}",
            "[1]",
            r#"{"session_id":"../s","hook_event_name":"Stop"}"#,
        ] {
            files.report(wrong.as_bytes(), at(3)).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn the_session_of_a_process_is_found_by_its_hooks() {
        let temp = tempfile::tempdir().unwrap();
        let runtime = temp.path().to_owned();
        let files =
            HookFiles::of(|name| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone().into()));
        for (session, second) in [("old", 1), ("a", 5), ("b", 6)] {
            let event = event(session, "UserPromptSubmit", "/w");
            files.report(event.as_bytes(), at(second)).unwrap();
        }
        // The parent of this process stands for the agent.
        let agent = ancestors()[0];
        let found = |pid: u32, cwd: &str, second: i64| {
            let found = files.find(pid, Path::new(cwd), at(second))?;
            Some((found.session, found.is_certain))
        };
        assert_eq!(found(agent, "/x", 3), Some(("b".to_owned(), true)));
        assert_eq!(found(agent, "/x", 7), None, "an earlier process");
        // Another agent in the same directory.
        assert_eq!(found(std::process::id(), "/w", 3), None);

        // Hooks in another namespace belong to the only session of a directory.
        let elsewhere = |session: &str, cwd: &str| {
            let mut file = files.read("a").unwrap();
            (file.session_id, file.cwd) = (session.to_owned(), cwd.to_owned());
            file.pid_namespace = "pid:[1]".to_owned();
            files.write(&file).unwrap();
        };
        elsewhere("c", "/v");
        assert_eq!(found(1_000_000, "/v", 3), Some(("c".to_owned(), false)));
        elsewhere("d", "/v");
        assert_eq!(found(1_000_000, "/v", 3), None);
    }

    #[test]
    fn hooks_that_run_at_the_same_time_lose_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().to_owned();
        let files = HookFiles::of(|name| (name == "HOME").then(|| home.clone().into()));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let files = &files;
                scope.spawn(move || {
                    let event = format!(
                        r#"{{"session_id":"s","hook_event_name":"PermissionRequest","agent_id":"a{number}","tool_name":"Bash"}}"#
                    );
                    files.report(event.as_bytes(), at(number)).unwrap();
                });
            }
        });
        for number in 0..16 {
            assert_eq!(
                files.read("s").unwrap().claim().unwrap().state.as_str(),
                "waiting"
            );
            let event = format!(
                r#"{{"session_id":"s","hook_event_name":"PostToolUse","agent_id":"a{number}","tool_name":"Bash"}}"#
            );
            files.report(event.as_bytes(), at(20)).unwrap();
        }
        assert_eq!(
            files.read("s").unwrap().claim().unwrap().state.as_str(),
            "working"
        );
    }

    #[test]
    fn the_next_directory_is_used_if_one_is_not_writable() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        let home = temp.path().to_owned();
        let files = HookFiles::of(|name| match name {
            "XDG_RUNTIME_DIR" => Some(file.clone().into()),
            "HOME" => Some(home.clone().into()),
            _ => None,
        });
        files
            .report(event("s", "Stop", "/w").as_bytes(), at(1))
            .unwrap();
        assert!(files.read("s").is_some());
        let nowhere = HookFiles::of(|_| None);
        assert!(
            nowhere
                .report(event("s", "Stop", "/w").as_bytes(), at(1))
                .is_err()
        );
    }
}
