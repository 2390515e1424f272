//! The files of one iteration of a loop: prompts, the model's responses and the output of checks.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::DirHandle;
use crate::redact::{Rules, TerminalStream};
use crate::text::{Utf8Decoder, first_bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IterationFile {
    /// The complete prompts.
    Prompt,
    /// The complete responses of the model, and its tool calls.
    Response,
    /// The standard output of the check.
    Stdout,
    /// The standard error of the check.
    Stderr,
    /// The standard output of the agent's command, as it was printed.
    AgentStdout,
    /// The standard error of the agent's command.
    AgentStderr,
}

impl IterationFile {
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt.txt",
            Self::Response => "response.txt",
            Self::Stdout => "stdout.log",
            Self::Stderr => "stderr.log",
            Self::AgentStdout => "agent_stdout.log",
            Self::AgentStderr => "agent_stderr.log",
        }
    }
}

#[derive(Debug)]
pub(crate) struct IterationDirectory {
    dir: DirHandle,
    rules: Rules,
}

impl RunDirectory {
    /// Creates the directory of an iteration, `iterations/{n}`. Secrets in its files will be redacted.
    ///
    /// # Errors
    /// If the directory cannot be created, or another kind of file has its name.
    pub(crate) fn iteration(&self, iteration: u32, rules: &Rules) -> Result<IterationDirectory> {
        let within = |dir: &DirHandle, name: &str| {
            dir.create_subdir(name)
                .map_err(|cause| Error::file("cannot create", &dir.join(name), cause))
        };
        let iterations = within(&self.open_dir()?, "iterations")?;
        Ok(IterationDirectory {
            dir: within(&iterations, &iteration.to_string())?,
            rules: rules.clone(),
        })
    }
}

impl IterationDirectory {
    /// Creates or truncates a file.
    ///
    /// # Errors
    /// If the file cannot be opened. Symbolic links are not followed.
    pub fn create(&self, file: IterationFile) -> Result<IterationText> {
        let path = self.dir.join(file.name());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let opened = self.dir.file(file.name(), flags);
        Ok(IterationText {
            file: opened.map_err(|cause| Error::file("cannot create", &path, cause))?,
            path,
            masked: TerminalStream::new(self.rules.clone()),
            // The maximum size of such a file; a longer one ends with a note. A response has some kilobytes, and more
            // output of a check is useless to a reader.
            room: 64 << 20,
            decoder: Utf8Decoder::default(),
        })
    }
}

/// A file of an iteration while it is written. Each piece is written at once.
#[derive(Debug)]
pub(crate) struct IterationText {
    file: File,
    path: PathBuf,
    masked: TerminalStream,
    /// The number of bytes that the file still accepts.
    room: u64,
    decoder: Utf8Decoder,
}

impl IterationText {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes, cut anywhere. Invalid UTF-8 becomes `\u{fffd}`.
    ///
    /// # Errors
    /// The same as [`IterationText::push`].
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let mut text = String::new();
        self.decoder.push(bytes, |part| text.push_str(part));
        self.push(&text)
    }

    /// Appends text. At 64 MiB the text is cut, and a note is added.
    ///
    /// # Errors
    /// Those of the system, such as a full disk.
    pub fn push(&mut self, text: &str) -> Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        let text = self.masked.push(text);
        let written = match usize::try_from(self.room) {
            Ok(room) if text.len() > room => {
                self.room = 0;
                let cut = "\n[td-observe: cut here, more was printed]\n";
                (self.file.write_all(first_bytes(&text, room).as_bytes()))
                    .and_then(|()| self.file.write_all(cut.as_bytes()))
            }
            _ => {
                self.room -= text.len() as u64;
                self.file.write_all(text.as_bytes())
            }
        };
        written.map_err(|cause| Error::file("cannot write", &self.path, cause))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::history::dir::DataDir;

    #[test]
    fn files_are_private_redacted_and_follow_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"loop".into());
        run.create().unwrap();
        let directory = run.iteration(3, &Rules::builtin()).unwrap();
        let mut response = directory.create(IterationFile::Response).unwrap();
        // In two pieces, as it arrives.
        response.push("postgres://app:hun").unwrap();
        response.push("ter2!@db/main\n").unwrap();
        let path = run.iteration_path(3).join("response.txt");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("ter2!"), "{text}");
        assert!(text.ends_with("@db/main\n"), "{text}");
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(path.parent().unwrap()) & 0o777, 0o700);
        // Creating truncates the file and does not follow a symbolic link.
        drop(directory.create(IterationFile::Response).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        let target = temp.path().join("target");
        symlink(&target, run.iteration_path(3).join("stdout.log")).unwrap();
        assert!(directory.create(IterationFile::Stdout).is_err());
        symlink(temp.path(), run.iteration_path(4)).unwrap();
        assert!(run.iteration(4, &Rules::none()).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn a_file_that_is_too_large_ends_with_a_note() {
        let temp = tempfile::tempdir().unwrap();
        let run = DataDir::new(temp.path()).run(&"loop".into());
        run.create().unwrap();
        let directory = run.iteration(1, &Rules::none()).unwrap();
        let mut stdout = directory.create(IterationFile::Stdout).unwrap();
        stdout.room = 5;
        let text = "abcdäe".as_bytes();
        for bytes in [&text[..5], &text[5..], b"more"] {
            stdout.push_bytes(bytes).unwrap();
        }
        let text = fs::read_to_string(run.iteration_path(1).join("stdout.log")).unwrap();
        assert_eq!(text, "abcd\n[td-observe: cut here, more was printed]\n");
    }
}
