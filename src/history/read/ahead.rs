//! The thread `td-ahead`, which reads, decompresses and checks the next blocks of a log while the reader
//! converts earlier lines to events.
//!
//! Events are not created in this thread, because freeing memory in another thread than the one that
//! allocated it costs more than parsing. The thread blocks on the disk and on the bounded queue of blocks. It
//! ends at the end of the log, or when the reader is dropped, which joins it.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::block::BLOCK_BYTES;
use super::parse::BlockLines;
use super::source::{LogFiles, unread};
use crate::error::{Error, Result};
use crate::thread::{self, Handle};

/// The number of blocks that wait for the reader; the second one covers the time of a slow read.
const BLOCKS_MAX: usize = 2;

/// Lines and their file.
type Lines = Result<(BlockLines, Arc<Path>)>;

/// The reader's handle of the thread.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Dropped to end the thread.
    lines: Option<Receiver<Lines>>,
    /// Memory of used blocks.
    used: Sender<Vec<u8>>,
    thread: Option<Handle<()>>,
}

impl ReadAhead {
    /// Starts the thread, which takes the files. Returns `None` if there is only one core or the thread
    /// cannot be started.
    pub(super) fn start(files: &mut LogFiles, keeps_lines: bool) -> Option<Self> {
        if thread::cores() < 2 {
            return None;
        }
        let (sender, lines) = bounded(BLOCKS_MAX);
        let (used, memory) = bounded(BLOCKS_MAX);
        // Sent to the thread later, so that the files are not lost if it cannot be started.
        let (give, given) = bounded(1);
        let thread = thread::spawn("td-ahead", move || {
            if let Ok(files) = given.recv() {
                serve(files, keeps_lines, &memory, &sender);
            }
        });
        let thread = Some(thread.ok()?);
        let mut files = std::mem::take(files);
        files.in_blocks_of(BLOCK_BYTES as u64);
        // The thread waits for them, so this succeeds.
        let _ = give.send(files);
        Some(Self {
            lines: Some(lines),
            used,
            thread,
        })
    }

    /// Waits for the next lines. Returns `None` at the end, and an error for unreadable parts.
    pub(super) fn next(&mut self) -> Option<Lines> {
        if let Some(lines) = self.lines.as_ref().and_then(|lines| lines.recv().ok()) {
            return Some(lines);
        }
        let panicked = self.thread.take()?.join().err()?;
        let error = Error::other("cannot read the rest of the log").because(panicked);
        Some(Err(error))
    }

    /// Takes back the memory of lines.
    pub(super) fn reuse(&self, memory: Vec<u8>) {
        // Memory without room in the queue is freed.
        let _ = self.used.try_send(memory);
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

fn serve(
    mut files: LogFiles,
    keeps_lines: bool,
    memory: &Receiver<Vec<u8>>,
    sender: &Sender<Lines>,
) {
    while let Some(next) = files.next() {
        let lines = next.and_then(|(source, path)| {
            let block = source.read(memory.try_recv().unwrap_or_default());
            let block = block.map_err(|cause| unread(&path, cause))?;
            Ok((BlockLines::checked(block, keeps_lines), path))
        });
        if sender.send(lines).is_err() {
            // The reader has been dropped.
            return;
        }
    }
}
