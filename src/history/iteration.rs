//! The files of one iteration of a loop: what the model was told and said, and what the check printed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::DirHandle;
use crate::redact::{Rules, TextStream};

/// The largest of such files; of more a last line says that it is cut. An answer has some kilobytes,
/// and a check that prints more is read by nobody.
const FILE_BYTES_MAX: u64 = 64 << 20;

const CUT: &str = "\n[td-observe: cut here, more was printed]\n";

/// One of the files of an iteration (`001…`, file structure).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationFile {
    /// The prompts, whole.
    Prompt,
    /// What the model answered, whole, and the context that it called.
    Response,
    /// What the check, and before it an agent's command, printed.
    Stdout,
    /// Their errors.
    Stderr,
}

impl IterationFile {
    /// Its name in the directory.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt.txt",
            Self::Response => "response.txt",
            Self::Stdout => "stdout.log",
            Self::Stderr => "stderr.log",
        }
    }
}

/// The directory of one iteration.
#[derive(Debug)]
pub struct IterationDirectory {
    dir: DirHandle,
    rules: Rules,
}

impl RunDirectory {
    /// Makes the directory of an iteration, `iterations/{n}`; secrets are kept out of its files.
    ///
    /// # Errors
    /// When it cannot be made, or something that is no directory stands in its place.
    pub fn iteration(&self, iteration: u32, rules: &Rules) -> Result<IterationDirectory> {
        let path = self.iteration_path(iteration);
        let within = |dir: &DirHandle, name: &str| {
            let path = dir.join(name);
            match rustix::fs::mkdirat(dir.fd(), name, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => dir.open_subdir(name),
                Err(cause) => Err(Error::file("cannot create", &path, cause.into())),
            }
        };
        let iterations = within(&self.open_dir()?, "iterations")?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(IterationDirectory {
            dir: within(&iterations, &name)?,
            rules: rules.clone(),
        })
    }
}

impl IterationDirectory {
    /// Begins one of its files anew.
    ///
    /// # Errors
    /// What the system says; a file that is a link is not followed.
    pub fn create(&self, file: IterationFile) -> Result<IterationText> {
        let path = self.dir.join(file.name());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let opened = self.dir.file(file.name(), flags);
        Ok(IterationText {
            file: opened.map_err(|cause| Error::file("cannot create", &path, cause))?,
            path,
            masked: TextStream::new(self.rules.clone()),
            room: FILE_BYTES_MAX,
            cut: Vec::new(),
        })
    }
}

/// One of the files, while it is written. Each source is in the kernel's hands when it was taken.
#[derive(Debug)]
pub struct IterationText {
    file: File,
    path: PathBuf,
    masked: TextStream,
    /// Bytes that the file still takes.
    room: u64,
    /// The beginning of a character.
    cut: Vec<u8>,
}

impl IterationText {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes, cut anywhere; what is no UTF-8 reads `\u{fffd}`.
    ///
    /// # Errors
    /// As for [`IterationText::push`].
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let mut whole = std::mem::take(&mut self.cut);
        whole.extend_from_slice(bytes);
        let end = match std::str::from_utf8(&whole) {
            // The beginning of a character waits for its rest.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => whole.len(),
        };
        self.cut = whole.split_off(end);
        self.push(&String::from_utf8_lossy(&whole))
    }

    /// Adds text; beyond 64 MiB it is cut, which the file says.
    ///
    /// # Errors
    /// What the system says: a full disk, say.
    pub fn push(&mut self, text: &str) -> Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        let text = self.masked.push(text);
        let written = match usize::try_from(self.room) {
            Ok(room) if text.len() > room => {
                self.room = 0;
                let mut end = room;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                write(&mut self.file, &text[..end]).and_then(|()| write(&mut self.file, CUT))
            }
            _ => {
                self.room -= text.len() as u64;
                write(&mut self.file, &text)
            }
        };
        written.map_err(|cause| Error::file("cannot write", &self.path, cause))
    }
}

fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::history::dir::DataDir;

    #[test]
    fn files_are_ours_alone_without_secrets_and_follow_no_link() {
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
        // It begins anew; and what is a link is no file of ours.
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
    fn a_file_that_is_too_large_is_cut_and_says_so() {
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
        assert_eq!(text, format!("abcd{CUT}"));
    }
}
