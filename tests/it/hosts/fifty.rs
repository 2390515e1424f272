//! Fifty observers on this machine, behind one sshd that gives each login the directories of its own host.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use super::sshd::{Sshd, keys, known_host, write_client_config};
use crate::cli::{PROGRAM, Running, assert_code, text};
use crate::observer::Home;
use crate::resources::share_kb;
use crate::support::{CEILING, wait_for};

/// Observers with names `h01`, `h02` and so on, which `ssh` reaches.
pub struct FiftyHosts {
    pub hosts: Vec<(String, Home)>,
    /// This machine, whose observer is `local`.
    pub local: Home,
    pub sshd: Sshd,
    ssh_config: PathBuf,
    _directory: tempfile::TempDir,
}

impl FiftyHosts {
    /// Starts so many observers, each with a tmux server of its own that has one session `work`; says so if
    /// this machine has no sshd.
    pub fn start(count: usize) -> Option<Self> {
        if let Some(why) = Sshd::missing() {
            eprintln!("!!! {why}: skipped");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let key = keys(directory.path(), "client");
        // Another program may take the port before sshd does, which then says so.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let port = port.unwrap().port();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(PROGRAM, bin.join("td-observe")).unwrap();
        let path = std::env::var("PATH").unwrap();
        let lines = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nAcceptEnv XDG_CONFIG_HOME TD_DATA_DIR XDG_RUNTIME_DIR TMUX_TMPDIR\n\
             SetEnv PATH={}:{path}\n",
            bin.display()
        );
        let sshd = Sshd::start(directory.path(), &key, &lines, None);
        let hosts: Vec<(String, Home)> = (1..=count)
            .map(|number| (format!("h{number:02}"), Home::new()))
            .collect();
        let sections: String = hosts
            .iter()
            .map(|(name, home)| {
                let directory = home.directory().display();
                format!(
                    "Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias all\n  SetEnv \
                     XDG_CONFIG_HOME={directory} TD_DATA_DIR={directory}/data XDG_RUNTIME_DIR={directory}/run TMUX_TMPDIR={}\n",
                    home.server.directory().display()
                )
            })
            .collect();
        let known = known_host("all", directory.path());
        let ssh_config = write_client_config(directory.path(), &sections, &known, &key);
        std::thread::scope(|scope| {
            // Two processors start them side by side.
            for half in hosts.chunks(count.div_ceil(2)) {
                scope.spawn(|| half.iter().for_each(|(_, home)| observe(home)));
            }
        });
        Some(Self {
            hosts,
            local: Home::new(),
            sshd,
            ssh_config,
            _directory: directory,
        })
    }

    pub fn ssh_command(&self) -> String {
        format!("ssh -F {}", self.ssh_config.display())
    }

    /// Returns `--host h01 --host h02` and so on.
    pub fn options(&self) -> Vec<&str> {
        let names = self.hosts.iter().map(|(name, _)| name.as_str());
        names.flat_map(|name| ["--host", name]).collect()
    }

    /// Returns the program with these arguments on this machine, which reaches the hosts.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.local.command(args);
        command.env("TD_SSH_COMMAND", self.ssh_command());
        command
    }

    /// Runs a shell command on a host, over ssh.
    #[track_caller]
    pub fn run_on(&self, name: &str, line: &str) -> Output {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(&self.ssh_config);
        ssh.args(["-o", "BatchMode=yes", name, line]);
        Running::start(ssh).end()
    }

    /// Returns the memory of all observers and that of all tmux servers, in kB; shared pages are split.
    pub fn memory_kb(&self) -> (u64, u64) {
        let homes = || self.hosts.iter().map(|(_, home)| home);
        let observers = homes().filter_map(|home| share_kb(home.pid())).sum();
        let servers = homes().filter_map(|home| {
            let pid = home.server.pid().as_raw_nonzero().get();
            share_kb(pid.unsigned_abs())
        });
        (observers, servers.sum())
    }
}

#[track_caller]
fn observe(home: &Home) {
    home.server.new_session("work", 80, 24, "exec cat");
    home.start();
}

/// Checks that a face first shows that all hosts are being connected, and then the rows of each.
#[track_caller]
fn are_one_board(fifty: &FiftyHosts) {
    let args = [vec!["status", "--watch", "--json"], fifty.options()].concat();
    let face = Running::start(fifty.command(&args));
    let (mut connecting, mut read) = (BTreeSet::new(), BTreeSet::new());
    while read.len() < fifty.hosts.len() {
        let line = face.lines.recv_timeout(CEILING);
        let line = line.unwrap_or_else(|_| panic!("{read:?} {:?}", face.complaints()));
        let row: Value = serde_json::from_str(&line).unwrap();
        let host = row["host"].as_str().unwrap().to_owned();
        if row["state"] == "connecting" {
            assert!(read.is_empty(), "{row}");
            connecting.insert(host);
        } else if row["name"] == "work" {
            read.insert(host);
        }
    }
    assert_eq!(connecting, read);
    face.signal(Signal::INT);
    assert_code(&face.end(), 0);
}

#[test]
fn each_login_is_on_a_host_of_its_own_and_all_are_one_board() {
    let Some(fifty) = FiftyHosts::start(50) else {
        return;
    };
    for name in ["h01", "h50"] {
        let home = &fifty.hosts.iter().find(|host| host.0 == name).unwrap().1;
        let status = fifty.run_on(name, "td-observe status --json; echo $TD_DATA_DIR");
        assert_code(&status, 0);
        let printed = text(&status.stdout);
        assert!(printed.contains("\"name\":\"work\""), "{printed}");
        let data = home.data().display().to_string();
        assert!(printed.ends_with(&format!("{data}\n")), "{printed}");
    }
    are_one_board(&fifty);
    let (observers, servers) = fifty.memory_kb();
    eprintln!("50 observers have {observers} kB, their tmux servers {servers} kB");
    let pids: Vec<u32> = fifty.hosts.iter().map(|(_, home)| home.pid()).collect();
    drop(fifty);
    wait_for("the observers' end", CEILING, || {
        let is_left = |pid: &&u32| share_kb(**pid).is_some();
        let left: Vec<u32> = pids.iter().filter(is_left).copied().collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}
