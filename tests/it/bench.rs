//! A log's writer in this process, with its own data directory and a clock that is advanced by hand.

use std::path::Path;
use std::time::{Duration, Instant};

use td_observe::history::{
    DataDir, Retention, Rotation, RunDirectory, RunInfo, RunKind, SyncPolicy,
};
use td_observe::internals::history::{LogNoticeKind, kind_of, open_run};
use td_observe::internals::history::{LogOptions, LogWriter};
use td_observe::{Envelope, FakeClock, TdEvent, Timestamp};

/// The writer.
pub struct Bench {
    pub data: DataDir,
    pub log: LogWriter,
    pub fake: FakeClock,
}

impl Bench {
    pub fn new(root: &Path) -> Self {
        Self::by_clock(root, FakeClock::new())
    }

    pub fn by_clock(root: &Path, fake: FakeClock) -> Self {
        Self::with(root, LogOptions::default(), fake)
    }

    pub fn synced(root: &Path, sync: SyncPolicy) -> Self {
        let options = LogOptions {
            sync,
            ..LogOptions::default()
        };
        Self::with(root, options, FakeClock::new())
    }

    pub fn rotating(root: &Path, rotation: Rotation) -> Self {
        Self::rotating_by(root, rotation, FakeClock::new())
    }

    /// Starts a writer whose clock has already advanced for some time.
    pub fn rotating_by(root: &Path, rotation: Rotation, fake: FakeClock) -> Self {
        let options = LogOptions {
            sync: SyncPolicy::Never,
            rotation,
            retention: Retention::EVERYTHING,
        };
        Self::with(root, options, fake)
    }

    fn with(root: &Path, options: LogOptions, fake: FakeClock) -> Self {
        Self {
            data: DataDir::new(root),
            log: LogWriter::start(options, fake.clock()).unwrap(),
            fake,
        }
    }

    pub fn now(&self) -> Instant {
        self.fake.clock().now()
    }

    pub fn run(&self, id: &str) -> RunDirectory {
        self.data.run(&id.into())
    }

    /// Opens and attaches a run; returns its next number.
    #[track_caller]
    pub fn open(&mut self, id: &str) -> u64 {
        let info = RunInfo {
            kind: RunKind::Other("test".into()),
            label: id.into(),
            ..RunInfo::default()
        };
        let run = open_run(&self.run(id), info, self.fake.clock().wall()).unwrap();
        let next = run.next_seq();
        self.log.attach(run, self.now());
        next
    }

    pub fn append(&mut self, batch: &[Envelope]) {
        self.log.append(batch, self.now());
    }

    /// Appends the events of a run with these numbers, about 300 bytes each, in batches of ten.
    pub fn fill(&mut self, id: &str, numbers: std::ops::Range<u64>) {
        let wall = self.fake.clock().wall();
        let events: Vec<Envelope> = numbers.map(|seq| token(id, seq, wall)).collect();
        for batch in events.chunks(10) {
            self.append(batch);
        }
    }

    pub fn advance(&mut self, by: Duration) {
        self.fake.advance(by);
        self.log.tick(self.now());
    }

    /// Returns the notices since the last call.
    pub fn notices(&mut self) -> Vec<LogNoticeKind> {
        let notices = self.log.take_notices();
        notices.iter().map(kind_of).collect()
    }

    /// Ends the writer, which must lose nothing.
    #[track_caller]
    pub fn finish(self) {
        let now = self.now();
        let report = self.log.finish(now);
        assert!(
            report.lost.is_empty() && report.problems.is_empty(),
            "{report:?}"
        );
    }
}

/// An event of about 300 bytes that hardly compresses.
pub fn token(id: &str, seq: u64, ts: Timestamp) -> Envelope {
    let token: String = (0..13)
        .map(|n| format!("{:016x}", scrambled(seq * 13 + n)))
        .collect();
    let event = TdEvent::token_received(id, 1, &token);
    Envelope::new(Some(seq), ts, event)
}

pub const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Returns pseudo-random letters for a key, so that no file of the tests contains one.
pub fn letters(seed: u64, count: u64, of: &[u8]) -> String {
    let letter = |n| char::from(of[(scrambled(seed * 1000 + n) % of.len() as u64) as usize]);
    (0..count).map(letter).collect()
}

/// Returns a pseudo-random number.
pub fn scrambled(number: u64) -> u64 {
    // The finalizer of splitmix64.
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
