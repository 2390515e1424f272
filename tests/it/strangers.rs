//! Other users of the machine: they can read nothing, and the program uses no file that they own or can
//! write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::cli::{Running, program, run};
use crate::support::TmuxServer;

/// A user id that no account of the machine has.
const STRANGER: u32 = 54_321;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED, NOT TESTED: only root can act as another user");
    }
    is_root
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Checks that the program refuses with one line that contains these texts.
#[track_caller]
fn assert_refused(output: &Output, texts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    // 125 is that of `run`.
    assert!(matches!(output.status.code(), Some(2 | 125)), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for text in texts {
        assert!(stderr.contains(text), "{text:?}: {stderr}");
    }
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// A data directory with one run, `job`.
fn history() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    let output = run(
        &["run", "--execution-id", "job", "--", "echo", "kept"],
        &data,
    );
    assert!(output.status.success(), "{output:?}");
    (temp, data)
}

const READERS: &[&[&str]] = &[
    &["runs"],
    &["log", "job"],
    &["replay", "job"],
    &["export", "job", "--format", "text"],
    &["run", "--", "true"],
];

#[test]
fn a_data_directory_that_others_can_write_to_is_refused() {
    let (_temp, data) = history();
    for (path, mode) in [(data.clone(), 0o777), (data.join("runs"), 0o770)] {
        set_mode(&path, mode);
        for args in READERS {
            let output = run(args, &data);
            assert_refused(&output, &["other users can write to it", "chmod go-w"]);
        }
        set_mode(&path, 0o700);
    }
    assert!(run(&["log", "job"], &data).status.success());
}

#[test]
fn a_run_that_others_can_write_to_is_refused_and_the_others_are_listed() {
    let (_temp, data) = history();
    let output = run(&["run", "--execution-id", "other", "--", "true"], &data);
    assert!(output.status.success(), "{output:?}");
    set_mode(&data.join("runs/job"), 0o707);
    for args in &READERS[1..4] {
        assert_refused(
            &run(args, &data),
            &["other users can write to it", "runs/job"],
        );
    }
    // A command is still run, without a log.
    let again = run(&["run", "--execution-id", "job", "--", "true"], &data);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(
        again.status.success() && stderr.contains("without a log: refused"),
        "{again:?}"
    );
    let path = data.join("runs/job");
    let by_path = run(&["log", path.to_str().unwrap()], &data);
    assert_refused(&by_path, &["runs/job"]);
    let listed = run(&["runs"], &data);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&listed.stdout),
        String::from_utf8_lossy(&listed.stderr),
    );
    assert!(
        stdout.contains("other") && !stdout.contains("job"),
        "{stdout}"
    );
    assert!(stderr.contains("runs/job"), "{stderr}");
}

#[test]
fn files_of_another_user_are_refused() {
    if !is_root() {
        return;
    }
    let (_temp, data) = history();
    let all = [data.clone(), data.join("runs"), data.join("runs/job")];
    for path in &all {
        chown(path, Some(STRANGER), None).unwrap();
        let output = run(&["log", "job"], &data);
        assert_refused(
            &output,
            &["belongs to another user", path.to_str().unwrap()],
        );
        chown(path, Some(0), None).unwrap();
    }
    let rules = data.join("redact.toml");
    fs::write(&rules, "").unwrap();
    chown(&rules, Some(STRANGER), None).unwrap();
    let output = run(&["run", "--", "true"], &data);
    assert_refused(&output, &["belongs to another user", "redact.toml"]);
}

#[test]
fn rules_that_others_can_write_to_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let rules = temp.path().join("rules.toml");
    fs::write(&rules, "").unwrap();
    set_mode(&rules, 0o666);
    let path = rules.to_str().unwrap();
    let data = temp.path().join("data");
    let output = run(&["run", "--redact", path, "--", "true"], &data);
    assert_refused(&output, &["other users can write to it", "rules.toml"]);
    set_mode(&rules, 0o644);
    assert!(
        run(&["run", "--redact", path, "--", "true"], &data)
            .status
            .success()
    );
}

#[test]
fn devices_and_named_pipes_are_no_logs() {
    let temp = tempfile::tempdir().unwrap();
    let fifo = temp.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    for path in ["/dev/zero", "/dev/tty", fifo.to_str().unwrap()] {
        // There may be no terminal to open.
        let output = run(&["log", path], temp.path());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    for path in ["/dev/zero", fifo.to_str().unwrap()] {
        assert_refused(
            &run(&["log", path], temp.path()),
            &["only regular files", path],
        );
    }
}

/// Returns the program under a limit of the shell's `ulimit`.
fn limited(limit: &str, args: &[&str], data: &Path) -> Command {
    let program = program(args, data);
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(format!("ulimit -c 0 {limit}; exec \"$@\""))
        .arg("bash")
        .arg(program.get_program())
        .args(program.get_args())
        .env("TD_DATA_DIR", data);
    shell
}

#[test]
fn a_small_address_space_is_an_error_and_no_abort() {
    let temp = tempfile::tempdir().unwrap();
    for kib in [60_000, 100_000, 190_000] {
        let limit = format!("-v {kib}");
        let output = limited(&limit, &["run", "--", "true"], temp.path());
        let output = Running::start(output).end();
        assert_refused(&output, &["address space is limited", "ulimit -v"]);
    }
}

#[test]
fn a_line_beyond_its_limit_fits_into_the_least_address_space() {
    let temp = tempfile::tempdir().unwrap();
    let event = |seq: u32| {
        format!(
            "{{\"seq\":{seq},\"ts\":\"2026-01-21T10:00:01.123456Z\",\"event\":{{\"type\":\"Warning\",\
             \"execution_id\":\"a\",\"context\":\"c\",\"message\":\"m{seq}\"}}}}\n"
        )
    };
    let mut text = event(1).into_bytes();
    text.resize(text.len() + (300 << 20), b'x');
    text.push(b'\n');
    text.extend(event(2).into_bytes());
    let plain = temp.path().join("long.jsonl");
    fs::write(&plain, &text).unwrap();
    let packed = temp.path().join("long.jsonl.gz");
    let file = fs::File::create(&packed).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &text).unwrap();
    encoder.finish().unwrap();
    drop(text);
    for path in [plain, packed] {
        for more in [&[][..], &["--grep", "m2"]] {
            let args = [&["log", path.to_str().unwrap()], more].concat();
            // The least is 200,000; a program that is not optimised has 16 MB more code.
            let output = Running::start(limited("-v 230000", &args, temp.path())).end();
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && stdout.contains("m2"),
                "{output:?}"
            );
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains("too long"), "{stderr}");
        }
    }
}

/// Another user of the machine, created for a test and removed at its end; without `useradd`, an id that
/// no account has.
struct Stranger {
    name: Option<String>,
    uid: u32,
}

impl Stranger {
    fn new() -> Self {
        let name = format!("td-stranger-{}", std::process::id());
        let made = Command::new("useradd")
            .args(["--no-create-home", "--shell", "/bin/sh", &name])
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("no account could be made: an id without one takes its place");
            let (name, uid) = (None, STRANGER);
            return Self { name, uid };
        }
        let mut stranger = Self {
            name: Some(name.clone()),
            uid: 0,
        };
        let id = Command::new("id").args(["-u", &name]).output().unwrap();
        stranger.uid = String::from_utf8_lossy(&id.stdout).trim().parse().unwrap();
        assert!(stranger.uid > 0);
        stranger
    }

    /// Runs a shell command as this user.
    fn run(&self, script: &str, args: &[&Path]) -> Output {
        Command::new("sh")
            .args(["-c", script, "sh"])
            .args(args)
            .current_dir("/")
            .env_remove("TMUX")
            .env_remove("TD_DATA_DIR")
            .env("HOME", "/nonexistent")
            .uid(self.uid)
            .gid(self.uid)
            .output()
            .unwrap()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let removed = Command::new("userdel").arg(name).output();
            let is_removed = removed.as_ref().is_ok_and(|output| output.status.success());
            if !is_removed {
                eprintln!("the account {name} is left: {removed:?}");
            }
        }
    }
}

#[test]
fn another_user_can_neither_read_nor_write() {
    if !is_root() {
        return;
    }
    let stranger = Stranger::new();
    let server = TmuxServer::new();
    server.new_session("job", 80, 24, "echo shown; exec cat");
    let temp = tempfile::tempdir().unwrap();
    // The stranger can reach the directories, and nothing in them.
    set_mode(temp.path(), 0o755);
    let data = temp.path().join("data");
    let mut command = program(&["watch", "job", "--lines", "5", "--raw"], &data);
    let sockets = temp.path().join("tmp");
    fs::create_dir(&sockets).unwrap();
    set_mode(&sockets, 0o1777);
    command
        .args([std::ffi::OsStr::new("-S"), server.socket().as_os_str()])
        .env("TMPDIR", &sockets);
    let mut watch = Running::start(command);
    watch.wait_for("shown");
    // The paths below the two directories that can be read, written or entered.
    let found = stranger.run(
        "find \"$@\" -mindepth 1 \\( -readable -o -writable -o -executable \\) 2>/dev/null; \
         ls \"$1\" 2>/dev/null; (: > \"$1/placed\") 2>/dev/null; (mkdir \"$1/runs/x\") 2>/dev/null; true",
        &[&data, &sockets],
    );
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{found:?}");
    // The program itself, and names that the stranger can guess.
    let ours = temp.path().join("td-observe");
    fs::copy(env!("CARGO_BIN_EXE_td-observe"), &ours).unwrap();
    set_mode(&ours, 0o755);
    let job = fs::read_dir(data.join("runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let paths = [&*ours, &*data, &*job.path(), &*server.socket()].map(Path::to_path_buf);
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    for (what, script) in [
        ("log", "\"$1\" --data-dir \"$2\" log"),
        ("log of the run", "\"$1\" --data-dir \"$2\" log \"$3\""),
        ("runs", "\"$1\" --data-dir \"$2\" runs"),
        ("status", "\"$1\" --data-dir \"$2\" -S \"$4\" status"),
        ("replay", "\"$1\" --data-dir \"$2\" replay job"),
        (
            "export",
            "\"$1\" --data-dir \"$2\" export job --format text",
        ),
        ("prune", "\"$1\" --data-dir \"$2\" runs prune --keep 0"),
        ("open", "cat \"$3\"/* \"$2\"/runs/*/*"),
        ("append", "echo x >> \"$3\"/events.jsonl"),
        ("connect", "tmux -S \"$4\" list-sessions"),
        (
            "wait",
            "\"$1\" -S \"$4\" wait job --text shown --timeout 1s",
        ),
        ("watch", "timeout 10 \"$1\" --no-log -S \"$4\" watch job"),
    ] {
        let output = stranger.run(script, &paths);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let is_silent = !stdout.contains("shown") && !stdout.contains("job");
        assert!(!output.status.success() && is_silent, "{what}: {output:?}");
    }
    watch.signal(Signal::INT);
    assert!(watch.end().status.success());
    let names = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["runs"]);
    // A directory that the stranger placed where the user's would be is refused.
    let placed = sockets.join("data");
    let made = stranger.run("mkdir -p \"$1/runs\"", &[&placed]);
    assert!(made.status.success(), "{made:?}");
    assert_refused(&run(&["runs"], &placed), &["belongs to another user"]);
    assert_refused(
        &run(&["run", "--", "true"], &placed),
        &["belongs to another user"],
    );
}

#[test]
fn without_threads_the_program_reports_it() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    set_mode(temp.path(), 0o777);
    let program = temp.path().join("td-observe");
    fs::copy(env!("CARGO_BIN_EXE_td-observe"), &program).unwrap();
    let data = temp.path().join("data");
    for threads in [1, 3, 5, 7] {
        let script = format!("ulimit -u {threads}; exec \"$1\" --data-dir \"$2\" run -- true");
        let output = Command::new("bash")
            .args(["-c", &script, "bash"])
            .args([&program, &data])
            .current_dir("/")
            .uid(STRANGER + threads)
            .gid(STRANGER)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{threads}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("cannot start the thread"), "{stderr}");
        let _ = fs::remove_dir_all(&data);
    }
}
