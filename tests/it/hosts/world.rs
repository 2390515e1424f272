//! A world of hosts for one test: each a network namespace with an sshd, a tmux server, a home and an observer.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::network::{Link, Namespace, kill, kill_and_wait, remove_left};
use super::printer::{Printer, number_of};
use super::sshd::{Sshd, keys, known_host, write_client_config};
use crate::cli::{PROGRAM, Running, assert_code, program, text};
use crate::observer::Home;
use crate::resources::{children_of, is_zombie};
use crate::support::{CEILING, TmuxServer, wait_for};
use crate::writer::SmallDisk;

/// What a host is like.
pub struct Place {
    name: &'static str,
    jump: Option<&'static str>,
    sshd_lines: String,
    has_program: bool,
    disk: Option<&'static str>,
}

impl Place {
    /// A host that the test reaches directly. Its name is that of its link, too: at most 15 characters.
    pub fn near(name: &'static str) -> Self {
        Self {
            name,
            jump: None,
            sshd_lines: String::new(),
            has_program: true,
            disk: None,
        }
    }

    /// A host that is reached through another one, to which alone it has a link.
    pub fn behind(name: &'static str, jump: &'static str) -> Self {
        Self {
            jump: Some(jump),
            ..Self::near(name)
        }
    }

    /// Adds a line to the configuration of its sshd.
    pub fn with_sshd(mut self, line: &str) -> Self {
        self.sshd_lines.push_str(line);
        self.sshd_lines.push('\n');
        self
    }

    /// Has its data directory on a file system of its own with these options, such as `size=1m`.
    pub fn with_disk(mut self, options: &'static str) -> Self {
        self.disk = Some(options);
        self
    }

    /// Takes the program from its PATH.
    pub fn without_program(mut self) -> Self {
        self.has_program = false;
        self
    }
}

/// The hosts of a test, and the namespace that has links to them. Dropping it ends all of their processes.
pub struct World {
    hosts: Vec<Host>,
    /// Where ssh runs.
    viewer: Namespace,
    /// This machine, whose observer is `local`.
    pub local: Home,
    ssh_config: PathBuf,
    _directory: tempfile::TempDir,
}

impl World {
    /// Creates the hosts; says so if this machine cannot have them. A jump host comes before those behind it.
    pub fn new(places: &[Place]) -> Option<Self> {
        let missing = Sshd::missing().map(str::to_owned);
        match missing.map_or_else(|| Self::create(places), Err) {
            Ok(world) => Some(world),
            Err(why) => {
                eprintln!("!!! no hosts can be made ({}): skipped", why.trim());
                None
            }
        }
    }

    /// Creates the hosts `a` and `b`, and `c` behind `b`.
    pub fn of_three() -> Option<Self> {
        Self::new(&[Place::near("a"), Place::near("b"), Place::behind("c", "b")])
    }

    fn create(places: &[Place]) -> Result<Self, String> {
        remove_left();
        let viewer = Namespace::create()?;
        let directory = tempfile::Builder::new().prefix("td-w-").tempdir().unwrap();
        let key = keys(directory.path(), "client");
        let (mut sections, mut known_hosts) = (String::new(), String::new());
        let mut hosts: Vec<Host> = Vec::new();
        for (number, place) in (1..).zip(places) {
            let jump = |name| hosts.iter().find(|host| host.name == name);
            let near = place
                .jump
                .map_or(&viewer, |name| &jump(name).unwrap().namespace);
            let home = directory.path().join(place.name);
            let host = Host::create(place, near, number, home, &key)?;
            let (name, address) = (place.name, host.link.far_address());
            sections += &format!("Host {name}\n  HostName {address}\n  HostKeyAlias {name}\n");
            if let Some(jump) = place.jump {
                sections += &format!("  ProxyJump {jump}\n");
            }
            known_hosts += &known_host(name, &host.etc());
            hosts.push(host);
        }
        let ssh_config = write_client_config(directory.path(), &sections, &known_hosts, &key);
        Ok(Self {
            hosts,
            viewer,
            local: Home::new(),
            ssh_config,
            _directory: directory,
        })
    }

    #[track_caller]
    pub fn host(&self, name: &str) -> &Host {
        let found = self.hosts.iter().find(|host| host.name == name);
        found.unwrap_or_else(|| panic!("no host {name}"))
    }

    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter()
    }

    /// Returns the value of `TD_SSH_COMMAND` with which the program reaches the hosts.
    pub fn ssh_command(&self) -> String {
        let (viewer, config) = (&self.viewer.name, self.ssh_config.display());
        format!("ip netns exec {viewer} ssh -F {config}")
    }

    /// Adds lines before those of the hosts in the configuration of ssh.
    pub fn prepend_ssh_config(&self, lines: &str) {
        let old = fs::read_to_string(&self.ssh_config).unwrap();
        fs::write(&self.ssh_config, format!("{lines}\n{old}")).unwrap();
    }

    /// Returns the program with these arguments on this machine, which reaches the hosts.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.local.command(args);
        command.env("TD_SSH_COMMAND", self.ssh_command());
        command
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        Running::start(self.command(args)).end()
    }

    /// Returns ssh with these arguments; what is asked for is refused, and never asked.
    pub fn ssh(&self, args: &[&str]) -> Command {
        let command = self.ssh_command();
        let mut words = command.split(' ');
        let mut ssh = Command::new(words.next().unwrap());
        ssh.args(words)
            .args(["-o", "BatchMode=yes"])
            .args(args)
            .stdin(Stdio::null());
        ssh
    }

    /// Runs a shell command on a host, over ssh.
    #[track_caller]
    pub fn run_on(&self, name: &str, command: &str) -> Output {
        Running::start(self.ssh(&[name, command])).end()
    }

    /// Starts the observer of a host by ssh, as a user does; returns its process.
    #[track_caller]
    pub fn start_observer(&self, name: &str) -> u32 {
        let host = self.host(name);
        let socket = host.server.socket();
        let command = format!("td-observe start -S {}", socket.display());
        assert_code(&self.run_on(name, &command), 0);
        host.observer()
    }

    /// Starts a session `work` and the observer on each host.
    #[track_caller]
    pub fn start_observers(&self) {
        for host in &self.hosts {
            host.server.new_session("work", 80, 24, "exec cat");
            self.start_observer(host.name);
        }
    }

    /// Returns the processes of ssh that run for a face: its own, and those that they started to jump.
    pub fn ssh_clients(&self, face: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut left = children_of(face);
        while let Some(pid) = left.pop() {
            left.extend(children_of(pid));
            if name_of(pid) == "ssh" {
                found.push(pid);
            }
        }
        found
    }

    /// Kills the processes of ssh that run for a face; returns how many.
    pub fn kill_ssh_clients(&self, face: u32) -> usize {
        let clients = self.ssh_clients(face);
        clients.iter().for_each(|pid| kill(*pid));
        clients.len()
    }

    /// Returns all processes of ssh of this test, whosever they are.
    pub fn all_ssh_clients(&self) -> Vec<u32> {
        self.viewer.pids()
    }
}

/// A host. Dropping it ends its processes.
pub struct Host {
    pub name: &'static str,
    /// Its directory of a user, with `data` and `run`.
    pub home: PathBuf,
    pub server: TmuxServer,
    sshd: Sshd,
    enter: PathBuf,
    /// The link that a test cuts and silences.
    pub link: Link,
    namespace: Namespace,
    _disk: Option<SmallDisk>,
}

impl Host {
    fn create(
        place: &Place,
        near: &Namespace,
        number: u8,
        home: PathBuf,
        client: &Path,
    ) -> Result<Self, String> {
        let namespace = Namespace::create()?;
        let link = Link::create(near, &namespace, place.name, number);
        let etc = etc_of(&home);
        for directory in [&home, &etc, &etc.join("bin")] {
            fs::create_dir(directory).unwrap();
        }
        if place.has_program {
            symlink(PROGRAM, etc.join("bin/td-observe")).unwrap();
        }
        let enter = write_enter(&etc, &namespace, place.name);
        // What enters the namespace sees the file systems that are mounted then.
        let disk = place.disk.map(|options| {
            let disk = SmallDisk::mount(&home.join("data"), options);
            disk.ok_or("no small disk can be mounted")
        });
        let disk = disk.transpose()?;
        let server = TmuxServer::entered(&enter);
        let variables = environment(&home, &etc, &server);
        let variables: Vec<String> = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let lines = format!("{}SetEnv {}", place.sshd_lines, variables.join(" "));
        let sshd = Sshd::start(&etc, client, &lines, Some(&enter));
        Ok(Self {
            name: place.name,
            home,
            server,
            sshd,
            enter,
            link,
            namespace,
            _disk: disk,
        })
    }

    /// Returns the directory of what the host's administrator has: keys, configuration, programs.
    pub fn etc(&self) -> PathBuf {
        etc_of(&self.home)
    }

    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Writes a program into the PATH of this host.
    pub fn write_program(&self, name: &str, text: &str) {
        let path = self.etc().join("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns a program that runs on this host, started without ssh, so also while its link is cut.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.enter);
        command
            .arg(program)
            .args(args)
            .envs(environment(&self.home, &self.etc(), &self.server))
            .env_remove("TMUX")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program on this host, started without ssh.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        Running::start(self.command(PROGRAM, args)).end()
    }

    /// Returns the events of an execution in this host's own history, oldest first.
    #[track_caller]
    pub fn history(&self, execution: &str) -> Vec<Value> {
        let shown = program(&["log", execution, "--json"], &self.data()).output();
        let shown = shown.unwrap();
        assert_code(&shown, 0);
        let lines = text(&shown.stdout);
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Starts the observer without ssh.
    #[track_caller]
    pub fn start_observer(&self) -> u32 {
        self.start_observer_with(&[])
    }

    /// Starts the observer without ssh, with more options.
    #[track_caller]
    pub fn start_observer_with(&self, options: &[&str]) -> u32 {
        let socket = self.server.socket().display().to_string();
        let args = [&["start", "-S", &socket], options].concat();
        assert_code(&self.run(&args), 0);
        self.observer()
    }

    /// Returns the process of the running observer.
    #[track_caller]
    pub fn observer(&self) -> u32 {
        let path = self.data().join("observer.json");
        let known: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        u32::try_from(known["pid"].as_u64().unwrap()).unwrap()
    }

    /// Kills the observer, and waits until it is gone.
    #[track_caller]
    pub fn kill_observer(&self) {
        kill_and_wait(self.observer());
    }

    /// Returns the processes of sshd that serve a client.
    pub fn ssh_sessions(&self) -> Vec<u32> {
        let mut pids = self.namespace.pids();
        pids.retain(|pid| *pid != self.sshd.pid() && name_of(*pid).starts_with("sshd"));
        pids
    }

    /// Kills the processes of sshd that serve a client; returns how many.
    pub fn kill_ssh_sessions(&self) -> usize {
        let sessions = self.ssh_sessions();
        sessions.iter().for_each(|pid| kill(*pid));
        sessions.len()
    }

    /// Returns the command lines of the processes that run here, by id.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let pids = self.namespace.pids().into_iter();
        let named = pids.filter_map(|pid| {
            // The process may have ended meanwhile.
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, text(&line).replace('\0', " ").trim().to_owned()))
        });
        let mut found: Vec<(u32, String)> = named.collect();
        found.sort();
        found
    }

    /// Returns the files and directories below the home, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.home.clone()];
        while let Some(directory) = left.pop() {
            // It may have been removed meanwhile.
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    left.push(entry.path());
                }
                found.push(entry.path().strip_prefix(&self.home).unwrap().to_owned());
            }
        }
        found.sort();
        found
    }

    /// Starts a session that prints numbered lines when it is told to.
    #[track_caller]
    pub fn printer(&self, session: &str) -> Printer {
        Printer::start(&self.server, &self.etc(), session)
    }
}

fn etc_of(home: &Path) -> PathBuf {
    home.with_extension("etc")
}

/// Writes the program that runs a command on a host.
fn write_enter(etc: &Path, namespace: &Namespace, name: &str) -> PathBuf {
    let path = etc.join("enter");
    let text = format!(
        "#!/bin/sh\nexec ip netns exec {} unshare --uts sh -c 'hostname host-{name}; exec \"$@\"' sh \"$@\"\n",
        namespace.name
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the variables of everything that runs on a host.
fn environment(home: &Path, etc: &Path, server: &TmuxServer) -> Vec<(&'static str, String)> {
    let shown = |path: PathBuf| path.display().to_string();
    // The same tmux as that of the tests.
    let path = std::env::var("PATH").unwrap();
    vec![
        ("HOME", shown(home.into())),
        ("TD_DATA_DIR", shown(home.join("data"))),
        ("XDG_RUNTIME_DIR", shown(home.join("run"))),
        ("TMUX_TMPDIR", shown(server.directory().into())),
        ("PATH", format!("{}:{path}", etc.join("bin").display())),
    ]
}

/// Returns the name of a process, or nothing once it has ended.
fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[test]
fn hosts_are_reached_by_ssh_and_also_behind_another_one() {
    let Some(world) = World::of_three() else {
        return;
    };
    for host in world.hosts() {
        let answer = world.run_on(host.name, "hostname; echo $HOME; command -v td-observe");
        assert_code(&answer, 0);
        let program = host.etc().join("bin/td-observe");
        let expected = format!(
            "host-{}\n{}\n{}\n",
            host.name,
            host.home.display(),
            program.display()
        );
        assert_eq!(text(&answer.stdout), expected, "{answer:?}");
        assert_eq!(host.files(), Vec::<PathBuf>::new());
    }
    // Only the jump host has a way to the one behind it.
    let address = world.host("c").link.far_address();
    let direct = [
        "-o",
        "ProxyJump=none",
        "-o",
        "ConnectTimeout=5",
        "c",
        "true",
    ];
    let refused = world.ssh(&direct).output().unwrap();
    assert_code(&refused, 255);
    assert!(text(&refused.stderr).contains(&address), "{refused:?}");
}

#[test]
fn a_link_is_cut_and_silenced_and_comes_back() {
    let Some(world) = World::of_three() else {
        return;
    };
    let login = |name| {
        let output = world
            .ssh(&["-o", "ConnectTimeout=2", name, "true"])
            .output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let b = world.host("b");
    b.link.cut();
    for name in ["b", "c"] {
        let (code, stderr) = login(name);
        assert_eq!(code, Some(255), "{name}: {stderr}");
    }
    assert_eq!(login("a"), (Some(0), String::new()));
    b.link.mend();
    assert_eq!(login("c"), (Some(0), String::new()));

    // A session outlives the silence, and a new one does not begin.
    let mut session = world.ssh(&["b", "read line; echo \"got $line\""]);
    let mut session = Running::start({
        session.stdin(Stdio::piped());
        session
    });
    wait_for("the session", CEILING, || {
        let sessions = b.ssh_sessions();
        (!sessions.is_empty()).then_some(()).ok_or(sessions)
    });
    b.link.silence();
    let (code, stderr) = login("b");
    assert_eq!(code, Some(255));
    assert!(stderr.contains("timed out"), "{stderr}");
    session
        .child
        .stdin
        .take()
        .unwrap()
        .write_all(b"it\n")
        .unwrap();
    b.link.unsilence();
    assert_eq!(text(&session.end().stdout), "got it\n");
}

/// Starts a command on a host over ssh, and waits until it runs there.
#[track_caller]
fn running_on(world: &World, name: &str, command: &str) -> Running {
    let running = Running::start(world.ssh(&[name, command]));
    wait_for(command, CEILING, || {
        let processes = world.host(name).processes();
        let runs = processes.iter().any(|(_, line)| line == command);
        runs.then_some(()).ok_or(processes)
    });
    running
}

#[test]
fn sessions_clients_and_observers_are_killed_and_nothing_is_left() {
    let Some(world) = World::of_three() else {
        return;
    };
    let c = world.host("c");
    c.server.new_session("work", 80, 24, "exec cat");
    let first = world.start_observer("c");
    c.kill_observer();
    let second = c.start_observer();
    assert_ne!(first, second);
    let shown = world.run_on("c", "td-observe status --json");
    assert!(
        text(&shown.stdout).contains("\"name\":\"work\""),
        "{shown:?}"
    );

    // The first command outlives its session.
    let running = running_on(&world, "c", "sleep 1000");
    assert_eq!(c.kill_ssh_sessions(), 1);
    assert_code(&running.end(), 255);
    let running = running_on(&world, "c", "sleep 1001");
    let clients = world.all_ssh_clients();
    assert!(clients.contains(&running.child.id()), "{clients:?}");
    // The client that jumps has a second one.
    assert_eq!(clients.len(), 2, "{clients:?}");
    assert_eq!(world.ssh_clients(running.child.id()).len(), 1);

    let mut printer = c.printer("lines");
    printer.print(10);
    printer.print(10);
    c.server.wait_for_text(&printer.pane, "line 0000020");
    assert_eq!(number_of("line 0000020"), Some(printer.printed()));

    let pids: Vec<u32> = world
        .hosts()
        .flat_map(Host::processes)
        .map(|(pid, _)| pid)
        .chain(world.all_ssh_clients())
        .collect();
    let names: Vec<String> = world
        .hosts()
        .map(|host| host.namespace.name.clone())
        .chain([world.viewer.name.clone()])
        .collect();
    assert_eq!(names.len(), 4);
    assert!(pids.contains(&second), "{pids:?}");
    drop(world);
    for name in names {
        assert!(!Path::new("/run/netns").join(&name).exists(), "{name}");
    }
    // One that has been killed is still there for a moment.
    wait_for("the end of all processes", CEILING, || {
        let is_left = |pid: &&u32| !name_of(**pid).is_empty() && !is_zombie(**pid);
        let left: Vec<&u32> = pids.iter().filter(is_left).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn a_test_that_panics_leaves_no_host() {
    let mut names = Vec::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let Some(world) = World::of_three() else {
            return;
        };
        world.start_observers();
        names.extend(world.hosts().map(|host| host.namespace.name.clone()));
        panic!("as a test that fails");
    }));
    if panicked.is_err() {
        assert_eq!(names.len(), 3);
    }
    for name in names {
        assert!(!Path::new("/run/netns").join(&name).exists(), "{name}");
    }
}
