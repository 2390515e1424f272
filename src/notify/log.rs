//! `notify.jsonl` in the data directory: what was sent, withheld and withdrawn, so that no other observer repeats it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::channel::Sent;
use super::message::{Item, Note};
use super::tact::Record;
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;

/// The size at which the file becomes `notify.jsonl.1`, in bytes: some two thousand messages. The one before it is lost.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The longest line that is read, in bytes: the news of a thousand rows.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// An observer begins to notify.
    Started,
    /// It has ended.
    Stopped,
    /// The channel has taken the message.
    Sent,
    /// The message may have arrived, and is not sent again.
    Unconfirmed,
    /// The message was not taken, and is sent again.
    Failed,
    /// There was nobody to tell.
    Nobody,
    /// The message is given up.
    Refused,
    /// The message shows what has become of it.
    Updated,
    /// The message could not be changed.
    NotUpdated,
    /// This is not told.
    Withheld,
    /// What rows have printed was not taken.
    OutputFailed,
    /// So many lines were not sent before the end.
    OutputLost,
    /// The message is about to be sent.
    Sending,
    /// What a later version writes.
    #[serde(other)]
    Unknown,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub ts: Timestamp,
    pub what: What,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// What the channel must know to change the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Timestamp>,
    /// The number of lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The process that writes it.
    pub by: u32,
}

impl Entry {
    /// Returns a line without a message.
    pub fn new(what: What, ts: Timestamp) -> Self {
        Self {
            ts,
            what,
            channel: None,
            note: None,
            items: Vec::new(),
            sent: None,
            why: None,
            again: None,
            lines: None,
            by: std::process::id(),
        }
    }

    /// Returns the line of a record about a channel.
    pub(super) fn of(record: Record, channel: &str, ts: Timestamp) -> Self {
        let (what, note, sent, why, again) = match record {
            Record::Sent(note, sent) => (What::Sent, note, sent.0, None, None),
            Record::Unconfirmed(note, why) => (What::Unconfirmed, note, None, Some(why), None),
            Record::Failed(note, why, at) => (What::Failed, note, None, Some(why), Some(at)),
            Record::Nobody(note, why) => (What::Nobody, note, None, Some(why.to_owned()), None),
            Record::Refused(note, why) => (What::Refused, note, None, Some(why), None),
            Record::Sending(note) => (What::Sending, note, None, None, None),
            Record::Updated(note, sent) => (What::Updated, note, sent.0, None, None),
            Record::NotUpdated(note, why) => (What::NotUpdated, note, None, Some(why), None),
            Record::OutputFailed(why, again) => {
                return Self {
                    channel: Some(channel.to_owned()),
                    why: Some(why),
                    again,
                    ..Self::new(What::OutputFailed, ts)
                };
            }
            Record::OutputLost(lines) => {
                return Self {
                    channel: Some(channel.to_owned()),
                    lines: Some(lines),
                    ..Self::new(What::OutputLost, ts)
                };
            }
            Record::Withheld(item, why) => {
                return Self {
                    channel: Some(channel.to_owned()),
                    items: vec![item],
                    why: Some(why.to_owned()),
                    ..Self::new(What::Withheld, ts)
                };
            }
        };
        Self {
            channel: Some(channel.to_owned()),
            note: Some(note.id),
            items: note.items,
            sent,
            why,
            again,
            ..Self::new(what, ts)
        }
    }

    /// Returns the message that a channel has been told, and what may be changed of it.
    pub(super) fn told(&self) -> Option<(&str, Note, Option<Sent>)> {
        let is_open = match self.what {
            What::Sent | What::Updated => true,
            What::Unconfirmed | What::Nobody | What::Refused | What::NotUpdated | What::Sending => {
                false
            }
            _ => return None,
        };
        let note = Note {
            id: self.note.clone()?,
            at: self.ts,
            items: self.items.clone(),
        };
        let sent = is_open.then(|| Sent(self.sent.clone()));
        Some((self.channel.as_deref()?, note, sent))
    }
}

/// The file, and how much of it has been read.
#[derive(Debug)]
pub(crate) struct NotifyLog {
    path: PathBuf,
    /// The file that was read last, and the bytes of its complete lines that were read.
    read: Option<(u64, u64)>,
}

impl NotifyLog {
    /// Returns the log in a data directory, which need not exist yet.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            path: directory.join("notify.jsonl"),
            read: None,
        }
    }

    /// Returns the lines that were added since the last call; at first all that are kept.
    ///
    /// # Errors
    /// When a file cannot be read. That it does not exist is no error.
    pub fn read(&mut self) -> Result<Vec<Entry>> {
        if let (Some((number, end)), Ok(metadata)) = (self.read, fs::symlink_metadata(&self.path))
            && (number, end) == (metadata.ino(), metadata.len())
        {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        let current = opened(&self.path)?;
        let number = current.as_ref().map(|(_, number)| *number);
        match self.read {
            // The file that was read is now the one before.
            Some((before, from)) if Some(before) != number => {
                let earlier = opened(&self.earlier())?.filter(|(_, number)| *number == before);
                if let Some((file, _)) = earlier {
                    read_lines(file, from, &mut entries).map_err(|cause| self.unreadable(cause))?;
                }
            }
            Some(_) => {}
            None => {
                if let Some((file, _)) = opened(&self.earlier())? {
                    read_lines(file, 0, &mut entries).map_err(|cause| self.unreadable(cause))?;
                }
            }
        }
        let Some((file, number)) = current else {
            return Ok(entries);
        };
        let from = self.read.filter(|(before, _)| *before == number);
        let from = from.map_or(0, |(_, from)| from);
        let end = read_lines(file, from, &mut entries).map_err(|cause| self.unreadable(cause))?;
        self.read = Some((number, end));
        Ok(entries)
    }

    /// Adds lines.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&self, entries: &[Entry]) -> Result<()> {
        let failed = |cause: io::Error| Error::file("cannot write", &self.path, cause);
        if entries.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry).map_err(|cause| failed(cause.into()))?;
            lines.push(b'\n');
        }
        // The lock keeps two observers from moving the file twice, and their lines whole.
        let mut file = loop {
            let file = self.open_for_writing().map_err(failed)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|cause| failed(cause.into()))?;
            let metadata = file.metadata().map_err(failed)?;
            let is_in_place = fs::symlink_metadata(&self.path)
                .is_ok_and(|at_path| at_path.ino() == metadata.ino());
            if !is_in_place {
                continue;
            }
            if metadata.len() < FILE_BYTES_MAX {
                break file;
            }
            fs::rename(&self.path, self.earlier()).map_err(failed)?;
        };
        file.write_all(&lines).map_err(failed)
    }

    fn open_for_writing(&self) -> io::Result<File> {
        // Does not follow a link that another user may have put there, nor wait for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
            .open(&self.path)
    }

    fn earlier(&self) -> PathBuf {
        self.path.with_extension("jsonl.1")
    }

    fn unreadable(&self, cause: io::Error) -> Error {
        Error::file("cannot read", &self.path, cause)
    }
}

/// Opens a file with its number, if it exists.
fn opened(path: &Path) -> Result<Option<(File, u64)>> {
    let open = || {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok((file, metadata.ino()))
    };
    match open() {
        Ok(opened) => Ok(Some(opened)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::file("cannot read", path, cause)),
    }
}

/// Reads the complete lines from a place on, and returns the place after them. Lines that are none of these are left out.
fn read_lines(mut file: File, from: u64, entries: &mut Vec<Entry>) -> io::Result<u64> {
    file.seek(SeekFrom::Start(from))?;
    let (mut reader, mut end) = (BufReader::new(file), from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if read == 0 || line.last() != Some(&b'\n') {
            // The rest of a line that is too long is no line, and is skipped.
            if (read as u64) < LINE_BYTES_MAX {
                return Ok(end);
            }
        }
        end += read as u64;
        entries.extend(serde_json::from_slice::<Entry>(&line).ok());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(number: i64) -> Entry {
        Entry {
            why: Some("x".repeat(1000)),
            ..Entry::new(What::Failed, Timestamp::from_micros(number))
        }
    }

    #[test]
    fn each_line_is_read_once_while_the_file_is_moved_and_only_the_last_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut reader = NotifyLog::in_directory(directory.path());
        assert_eq!(reader.read().unwrap(), []);
        let writer = NotifyLog::in_directory(directory.path());
        let mut numbers = Vec::new();
        for number in 0..5000 {
            writer.append(&[entry(number)]).unwrap();
            if number % 7 == 0 {
                numbers.extend(reader.read().unwrap().iter().map(|entry| entry.ts.micros()));
            }
        }
        numbers.extend(reader.read().unwrap().iter().map(|entry| entry.ts.micros()));
        assert_eq!(numbers, (0..5000).collect::<Vec<_>>());
        let mut files: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
        files.sort_by_key(std::fs::DirEntry::file_name);
        assert_eq!(files.len(), 2, "{files:?}");
        for file in files {
            let metadata = file.metadata().unwrap();
            assert!(metadata.len() <= FILE_BYTES_MAX + 2000, "{file:?}");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        let all = NotifyLog::in_directory(directory.path()).read().unwrap();
        assert_eq!(all.last().unwrap().ts.micros(), 4999);
    }

    #[test]
    fn lines_of_later_versions_and_broken_ones_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify.jsonl");
        let later = r#"{"ts":"2026-11-29T12:00:00Z","what":"sung","by":1,"tune":"x"}"#;
        fs::write(&path, format!("{later}\nnonsense\n{later}\n{{\"ts\"")).unwrap();
        let mut log = NotifyLog::in_directory(directory.path());
        let read = log.read().unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].what, What::Unknown);
        // The line that is still being written is read once it is complete.
        fs::write(&path, format!("{later}\nnonsense\n{later}\n{later}\n")).unwrap();
        assert_eq!(log.read().unwrap().len(), 1);
        // What is no file is refused.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(log.read().is_err());
        assert!(
            log.append(&[Entry::new(What::Started, Timestamp::from_micros(0))])
                .is_err()
        );
    }
}
