//! Processor time: of this process, of its ended children, of another process, and of the whole machine.

use std::fs;
use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock tick, the unit in which the kernel counts children.
const TICK_NS: f64 = 1e7;

/// Returns the CPU time of this process, ended threads included, in ms; exact.
pub fn own_ms() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e3 + used.tv_nsec as f64 / 1e6
}

/// Returns the CPU time of ended children in ms. The sum is exact; the kernel reports steps of 10 ms.
pub fn children_ms() -> f64 {
    ticks_ms("self", CHILDREN).unwrap()
}

/// Returns the same for another process, or 0 when it is gone.
pub fn children_of_ms(pid: u32) -> f64 {
    ticks_ms(&pid.to_string(), CHILDREN).unwrap_or(0.0)
}

/// Returns the CPU time of another process, ended threads and children included, in ms and in steps of 10
/// ms, or 0 when it is gone.
pub fn whole_ms(pid: u32) -> f64 {
    ticks_ms(&pid.to_string(), WHOLE).unwrap_or(0.0)
}

/// Fields 14 to 17 of proc(5): utime, stime, cutime and cstime.
const WHOLE: Range<usize> = 14..18;
/// The latter two.
const CHILDREN: Range<usize> = 16..18;

fn ticks_ms(process: &str, fields: Range<usize>) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The text after the name begins with a blank and field 3.
    let of: Vec<&str> = stat.rsplit_once(')')?.1.split(' ').collect();
    let ticks = of[fields.start - 2..fields.end - 2].iter();
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
    Some(ticks as f64 * TICK_NS / 1e6)
}

/// Returns the CPU time of another process, without its children, in ms, as exactly as the scheduler knows it.
pub fn other_ms(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos: u64 = tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
        .sum();
    nanos as f64 / 1e6
}

/// Returns the CPU time of this process's threads with this name, in ms, as exactly as the scheduler knows it.
pub fn threads_ms(name: &str) -> f64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let nanos: u64 = tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let is_named = fs::read_to_string(path.join("comm")).ok()?.trim() == name;
            is_named.then_some(())?;
            let stat = fs::read_to_string(path.join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    nanos as f64 / 1e6
}

/// Returns the busy time of all processors in ms.
pub fn busy_ms() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    // user, nice, system, idle, iowait, irq, softirq, steal; in ticks of 10 ms.
    let all = stat.lines().next().unwrap().split_whitespace().skip(1);
    let busy = all
        .take(8)
        .enumerate()
        .filter(|(at, _)| ![3, 4].contains(at));
    busy.map(|(_, ticks)| ticks.parse::<f64>().unwrap() * 10.0)
        .sum()
}

/// Milliseconds of processor time per second, over some time.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// This process and its ended children.
    pub watcher: f64,
    /// The tmux server.
    pub server: f64,
}

/// Measures the CPU time that `work` costs this process, its children and a server.
pub fn spent(server: u32, work: impl FnOnce()) -> Spent {
    let now = || (own_ms() + children_ms(), other_ms(server));
    let began = std::time::Instant::now();
    let before = now();
    work();
    let after = now();
    let seconds = began.elapsed().as_secs_f64();
    Spent {
        watcher: (after.0 - before.0) / seconds,
        server: (after.1 - before.1) / seconds,
    }
}
