//! The log's memory during a flood on a disk that is full or does not answer.
//!
//! Each flood runs in its own process, so that memory left by one does not count for the other. If
//! nothing can be mounted or frozen, the row is skipped with a reason.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use td_observe::Builder;
use td_observe::history::RunInfo;

use crate::common::resources::Held;
use crate::common::table::{Bar, Row, Table};

const HIDDEN: &str = "flood-onto-a-bad-disk";

pub fn run(table: &mut Table) {
    for (kind, what) in [
        (
            "full",
            "memory beyond the start, a flood onto a full disk, after 0.5 GB and 2 GB",
        ),
        (
            "frozen",
            "memory beyond the start, a flood onto a disk that does not answer, after 0.5 GB and 2 GB",
        ),
    ] {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args([HIDDEN, kind])
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "the flood onto a {kind} disk has failed"
        );
        let printed = String::from_utf8(ran.stdout).unwrap();
        let mut numbers = printed
            .split_whitespace()
            .map(|one| one.parse::<f64>().unwrap());
        let (Some(early), Some(late)) = (numbers.next(), numbers.next()) else {
            eprintln!("SKIPPED: nothing can be mounted or frozen here, so no {kind} disk");
            continue;
        };
        table.row(&Row {
            what,
            ours: format!("{early:.0} → {late:.0} MB"),
            instead: String::new(),
            ratio: None,
            bar: Bar::Stated("flat, by a tenth", late <= early * 1.1),
        });
    }
}

/// Runs the flood and returns true if this process was started for it.
pub fn has_run() -> bool {
    let mut arguments = std::env::args().skip(1);
    let is_asked = arguments.next().is_some_and(|one| one == HIDDEN);
    if is_asked {
        let temp = tempfile::tempdir().unwrap();
        let peaks = match arguments.next().as_deref() {
            Some("full") => BadDisk::full(temp.path()).and_then(|disk| flood(disk, false)),
            _ => BadDisk::stalling(temp.path()).and_then(|disk| flood(disk, true)),
        };
        if let Some([early, late]) = peaks {
            println!("{early} {late}");
        }
    }
    is_asked
}

/// Returns the resident memory of this process in MB.
fn resident() -> f64 {
    Held::here().rss_kb as f64 / 1e3
}

/// A disk that accepts no writes; unmounted when dropped.
struct BadDisk {
    at: PathBuf,
    is_frozen: bool,
}

impl BadDisk {
    /// Mounts a file system of one megabyte, which is full at once.
    fn full(root: &Path) -> Option<Self> {
        let at = root.join("full");
        fs::create_dir(&at).unwrap();
        let mounted = ran(Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
            .arg(&at));
        mounted.then_some(Self {
            at,
            is_frozen: false,
        })
    }

    /// Mounts a file system that can be frozen, so that every write waits as on a hung disk.
    fn stalling(root: &Path) -> Option<Self> {
        let (image, at) = (root.join("image"), root.join("stalled"));
        fs::create_dir(&at).unwrap();
        File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let mounted = ran(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && ran(Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &at]));
        mounted.then_some(Self {
            at,
            is_frozen: false,
        })
    }

    fn freeze(&mut self) -> bool {
        self.is_frozen = ran(Command::new("fsfreeze").arg("-f").arg(&self.at));
        self.is_frozen
    }

    fn thaw(&mut self) {
        if std::mem::take(&mut self.is_frozen) {
            ran(Command::new("fsfreeze").arg("-u").arg(&self.at));
        }
    }
}

impl Drop for BadDisk {
    fn drop(&mut self) {
        self.thaw();
        ran(Command::new("umount").arg("-l").arg(&self.at));
    }
}

fn ran(command: &mut Command) -> bool {
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The number of flooded runs: together they may hold more than the log's limit.
const FLOODED_RUNS: usize = 12;

/// Emits lines of a kilobyte into a log on a bad disk, with a subscriber that never reads; returns the
/// peak memory after 500 MB and after 2 GB.
fn flood(mut disk: BadDisk, freeze: bool) -> Option<[f64; 2]> {
    let engine = Builder::new().data_dir(&disk.at).start().unwrap();
    let _reads_nothing = engine.subscribe();
    let emitters: Vec<_> = (0..FLOODED_RUNS)
        .map(|n| {
            engine
                .emitter_for(format!("flood-{n}"), RunInfo::default())
                .unwrap()
        })
        .collect();
    let line = "x".repeat(1024);
    if freeze && !disk.freeze() {
        return None;
    }
    let (before, mut highest) = (resident(), 0_f64);
    let peaks = [500_000, 1_500_000].map(|events| {
        for n in 0..events {
            emitters[n % FLOODED_RUNS].token_received(1, &line);
            if n % 64 == 0 {
                // Lets the fan-out run: otherwise the inbox holds everything.
                thread::yield_now();
            }
            if n % 1000 == 0 {
                highest = highest.max(resident() - before);
            }
        }
        highest
    });
    disk.thaw();
    let log = engine.shutdown().log.unwrap();
    // A disk that answers again takes what was kept, and a gap for the rest; a full one takes neither.
    let are_recorded = log.lost.iter().all(|lost| lost.is_recorded);
    assert_eq!(are_recorded, freeze, "{:?}", log.lost);
    Some(peaks)
}
