//! Leftovers of the program: its processes, its sockets, and its temporary files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::program::{PROGRAM, Place};
use crate::support::within;

/// The time in which a process must notice that its observer is gone.
const GRACE: Duration = Duration::from_secs(5);

/// Counts of leftovers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    pub processes: u64,
    pub sockets: u64,
    pub files: u64,
}

impl Leftovers {
    /// Returns the leftovers of a place after the grace time.
    pub fn at(place: &Place) -> Self {
        within(GRACE, || match Self::now(place) {
            left if left == Self::default() => Ok(left),
            left => Err(left),
        })
        .unwrap_or_else(|left| {
            eprintln!("left behind at {:?}: {left:?}", place.sockets());
            left
        })
    }

    fn now(place: &Place) -> Self {
        Self {
            processes: processes(&place.sockets()),
            sockets: entries(&place.sockets(), |_| true),
            files: entries(place.run().path(), |name| {
                name.ends_with(".tmp") || name.contains(".new")
            }),
        }
    }
}

/// Counts the processes of the program whose environment names the directory for sockets.
fn processes(sockets: &Path) -> u64 {
    let marker = sockets.to_str().unwrap().as_bytes();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ours = all.filter(|entry| {
        let exe = fs::read_link(entry.path().join("exe"));
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        exe.is_ok_and(|exe| exe == Path::new(PROGRAM))
            && environment.windows(marker.len()).any(|part| part == marker)
    });
    ours.count() as u64
}

fn entries(directory: &Path, is_counted: impl Fn(&str) -> bool) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| is_counted(&name.to_string_lossy()))
        .count() as u64
}
