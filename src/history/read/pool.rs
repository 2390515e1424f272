//! `td-read-N`: threads that read and sift blocks, so that a large log is searched on all cores.
//!
//! The reader hands out jobs and gets each answer through a channel of its own, in the order in
//! which it asked; both queues are bounded by [`Pool::ahead`]. A thread blocks on the queue of jobs
//! and on the disk. It ends when the reader drops the pool, which joins it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::block::{Block, read_part};
use super::sift::{Sifted, Sifter};
use crate::thread::{self, Handle};

/// More of them wait for the memory, not for each other.
const THREADS_MAX: usize = 8;

/// What is to be looked at.
#[derive(Debug)]
pub(super) enum Piece {
    /// The lines that begin in a part of a file.
    Part {
        file: Arc<File>,
        part: Range<u64>,
        len: u64,
    },
    /// Lines that were read already.
    Block(Block),
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Scratch(Block);

impl Scratch {
    pub(super) fn sift(&mut self, piece: Piece, sifter: &Sifter) -> io::Result<Sifted> {
        match piece {
            Piece::Part { file, part, len } => {
                read_part(&file, part, len, &mut self.0)?;
                Ok(sifter.sift(&self.0))
            }
            Piece::Block(block) => Ok(sifter.sift(&block)),
        }
    }
}

impl Piece {
    /// Its lines, in memory of their own.
    pub(super) fn read(self) -> io::Result<Block> {
        match self {
            Self::Part { file, part, len } => {
                let mut block = Block::default();
                read_part(&file, part, len, &mut block)?;
                Ok(block)
            }
            Self::Block(block) => Ok(block),
        }
    }
}

type Answer = Sender<io::Result<Sifted>>;

/// The threads.
#[derive(Debug)]
pub(super) struct Pool {
    /// Gone when the threads are to end.
    jobs: Option<Sender<(Piece, Answer)>>,
    threads: Vec<Handle<()>>,
}

impl Pool {
    /// As many threads as there are cores, and none when there is one only or the system gives none.
    pub(super) fn start(sifter: &Arc<Sifter>) -> Option<Self> {
        let wanted = thread::cores().min(THREADS_MAX);
        if wanted < 2 {
            return None;
        }
        let (jobs, queue) = bounded::<(Piece, Answer)>(wanted * 2);
        let threads = (0..wanted).map_while(|n| {
            let (queue, sifter) = (queue.clone(), Arc::clone(sifter));
            thread::spawn(format!("td-read-{n}"), move || serve(&queue, &sifter)).ok()
        });
        let threads: Vec<_> = threads.collect();
        (!threads.is_empty()).then_some(Self {
            jobs: Some(jobs),
            threads,
        })
    }

    /// How many pieces may be under way: each thread has one in its hands and one to go on with.
    pub(super) fn ahead(&self) -> usize {
        self.threads.len() * 2
    }

    /// Hands out a piece.
    pub(super) fn ask(&self, piece: Piece) -> Receiver<io::Result<Sifted>> {
        // Room for the one answer, so that a thread never waits for a reader that is gone.
        let (answer, answered) = bounded(1);
        if let Some(jobs) = &self.jobs {
            // The threads live as long as the pool; if one panics its answer is missed below.
            let _ = jobs.send((piece, answer));
        }
        answered
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if let Err(panicked) = thread.join() {
                log::error!("{panicked}");
            }
        }
    }
}

fn serve(queue: &Receiver<(Piece, Answer)>, sifter: &Sifter) {
    let mut scratch = Scratch::default();
    for (piece, answer) in queue {
        // A reader that is gone wants no answer.
        let _ = answer.send(scratch.sift(piece, sifter));
    }
}
