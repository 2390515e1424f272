//! Network namespaces, and the links between them that a test cuts and silences.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::text;
use crate::resources::is_zombie;
use crate::support::{CEILING, wait_for, within};

/// The beginning of the names of all namespaces; the process of the tests follows.
const PREFIX: &str = "td-world-";

/// A network namespace. Dropping it kills the processes that are left there.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    /// Creates a namespace; without the right to, returns what `ip` says.
    pub fn create() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        ip(&["netns", "add", &name])?;
        let created = Self { name };
        created.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
        Ok(created)
    }

    /// Runs `ip` on this namespace.
    pub fn ip(&self, args: &[&str]) -> Result<String, String> {
        ip(&[&["-n", &self.name], args].concat())
    }

    /// Returns the processes that run here.
    pub fn pids(&self) -> Vec<u32> {
        let listed = ip(&["netns", "pids", &self.name]).unwrap_or_default();
        listed.lines().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A process may have started another one meanwhile.
        let ended = within(CEILING, || {
            let left = self.pids();
            left.iter().for_each(|pid| kill(*pid));
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        let deleted = ip(&["netns", "delete", &self.name]);
        if !std::thread::panicking() {
            ended.expect("processes that cannot be killed");
            deleted.unwrap();
        }
    }
}

/// Kills a process, which may have ended.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.unwrap(), Signal::KILL);
}

/// Kills a process, and waits until its files are closed.
#[track_caller]
pub fn kill_and_wait(pid: u32) {
    kill(pid);
    wait_for("the end of a process", CEILING, || {
        // The last of its threads closes them, which may be another than the first.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let is_over = threads == 0 || threads == 1 && is_zombie(pid);
        is_over.then_some(()).ok_or(threads)
    });
}

/// Removes the namespaces that killed runs of the tests left, with their processes.
pub fn remove_left() {
    let listed = ip(&["netns", "list"]).unwrap_or_default();
    for line in listed.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let Some((pid, _)) = name.strip_prefix(PREFIX).and_then(|of| of.split_once('-')) else {
            continue;
        };
        if !Path::new("/proc").join(pid).exists() {
            drop(Namespace { name: name.into() });
        }
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("ip {args:?}: {error}"))?;
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("ip {args:?}: {}", text(&output.stderr)))
    }
}

/// A link between two namespaces.
pub struct Link {
    near: String,
    far: String,
    /// Its name on the near side.
    name: String,
    number: u8,
}

/// The name of every link on its far side.
const FAR_NAME: &str = "eth0";

/// A hardware address that no link has. What is sent there is lost, and nobody hears of it.
const NOBODY: &str = "02:00:00:00:00:01";

impl Link {
    /// Creates a link, whose addresses no other link of the same world with another number has.
    pub fn create(near: &Namespace, far: &Namespace, name: &str, number: u8) -> Self {
        let created = Self {
            near: near.name.clone(),
            far: far.name.clone(),
            name: name.to_owned(),
            number,
        };
        let peer = ["type", "veth", "peer", "name", FAR_NAME, "netns", &far.name];
        let link = ["link", "add", "name", name, "netns", &near.name];
        ip(&[&link[..], &peer].concat()).unwrap();
        for (namespace, device, address) in [
            (near, name, created.near_address()),
            (far, FAR_NAME, created.far_address()),
        ] {
            namespace
                .ip(&["addr", "add", &format!("{address}/24"), "dev", device])
                .unwrap();
            namespace.ip(&["link", "set", "dev", device, "up"]).unwrap();
        }
        created
    }

    fn near_address(&self) -> String {
        format!("10.213.{}.1", self.number)
    }

    pub fn far_address(&self) -> String {
        format!("10.213.{}.2", self.number)
    }

    /// Takes the link down: both ends know that it is down.
    #[track_caller]
    pub fn cut(&self) {
        self.set("down");
    }

    /// Takes the link up, and waits until it carries.
    #[track_caller]
    pub fn mend(&self) {
        self.set("up");
        wait_for("the link", CEILING, || {
            let shown = ip(&["-n", &self.far, "-o", "link", "show", "dev", FAR_NAME]).unwrap();
            let carries = shown.contains("LOWER_UP");
            carries.then_some(()).ok_or(shown)
        });
    }

    #[track_caller]
    fn set(&self, state: &str) {
        ip(&["-n", &self.near, "link", "set", "dev", &self.name, state]).unwrap();
    }

    /// Drops what either end sends, of which neither hears: no connection ends, none begins.
    #[track_caller]
    pub fn silence(&self) {
        for [end, device, other] in self.ends() {
            let to = [&other, "lladdr", NOBODY, "dev", &device, "nud", "permanent"];
            ip(&[&["-n", &end, "neigh", "replace"][..], &to].concat()).unwrap();
        }
    }

    /// Ends the silence.
    #[track_caller]
    pub fn unsilence(&self) {
        for [end, device, other] in self.ends() {
            ip(&["-n", &end, "neigh", "del", &other, "dev", &device]).unwrap();
        }
    }

    /// Returns both ends: the namespace, the name of the link there, and the address at the other end.
    fn ends(&self) -> [[String; 3]; 2] {
        let near = [self.near.clone(), self.name.clone(), self.far_address()];
        let far = [self.far.clone(), FAR_NAME.to_owned(), self.near_address()];
        [near, far]
    }
}
