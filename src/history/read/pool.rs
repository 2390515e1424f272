//! The threads `td-read-N`, which read and parse blocks, so that all cores search a large log.
//!
//! The reader queues jobs and receives each result over a separate channel, in the order of the jobs. Both
//! queues are bounded by [`ReaderPool::ahead`]. A thread blocks on the queue of jobs and on the disk. It ends
//! when the reader drops the pool, which joins it.

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::parse::{BlockParser, ParsedBlock};
use super::source::BlockSource;
use crate::thread::{self, Handle};

/// More threads would be limited by memory bandwidth.
const THREADS_MAX: usize = 8;

/// Memory of a block that is reused.
#[derive(Debug, Default)]
pub(super) struct BlockBuffer(Vec<u8>);

impl BlockBuffer {
    pub(super) fn parse(
        &mut self,
        source: BlockSource,
        parser: &BlockParser,
    ) -> io::Result<ParsedBlock> {
        let block = source.read(std::mem::take(&mut self.0))?;
        let parsed = parser.parse(&block);
        self.0 = block.bytes;
        Ok(parsed)
    }
}

type ParsedSender = Sender<io::Result<ParsedBlock>>;

/// The threads of a reader.
#[derive(Debug)]
pub(super) struct ReaderPool {
    /// Dropped to end the threads.
    jobs: Option<Sender<(BlockSource, ParsedSender)>>,
    threads: Vec<Handle<()>>,
}

impl ReaderPool {
    /// Starts one thread per core. Returns `None` if there is only one core or no thread can be started.
    pub(super) fn start(parser: &Arc<BlockParser>) -> Option<Self> {
        let wanted = thread::cores().min(THREADS_MAX);
        if wanted < 2 {
            return None;
        }
        let (jobs, queue) = bounded::<(BlockSource, ParsedSender)>(wanted * 2);
        let threads = (0..wanted).map_while(|n| {
            let (queue, parser) = (queue.clone(), Arc::clone(parser));
            thread::spawn(format!("td-read-{n}"), move || serve(&queue, &parser)).ok()
        });
        let threads: Vec<_> = threads.collect();
        (!threads.is_empty()).then_some(Self {
            jobs: Some(jobs),
            threads,
        })
    }

    /// Returns the number of concurrent jobs: one in progress and one queued per thread.
    pub(super) fn ahead(&self) -> usize {
        self.threads.len() * 2
    }

    /// Queues a job.
    pub(super) fn parse(&self, source: BlockSource) -> Receiver<io::Result<ParsedBlock>> {
        // Has room for its only result, so that a thread never waits for a dropped reader.
        let (sender, receiver) = bounded(1);
        if let Some(jobs) = &self.jobs {
            // The threads live as long as the pool. If one panics, its result is missing below.
            let _ = jobs.send((source, sender));
        }
        receiver
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        self.jobs = None;
        self.threads.drain(..).for_each(Handle::join_logged);
    }
}

fn serve(queue: &Receiver<(BlockSource, ParsedSender)>, parser: &BlockParser) {
    let mut buffer = BlockBuffer::default();
    for (source, sender) in queue {
        // A dropped reader needs no result.
        let _ = sender.send(buffer.parse(source, parser));
    }
}
