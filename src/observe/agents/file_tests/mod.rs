//! Results of checks of a file, and warnings about files.

mod transcripts;

use std::io::Write;

use super::super::content::TAILS;
use super::*;
use crate::clock::Clock;

const STABLE: Duration = Duration::from_secs(10);
const WORKS: &str = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
const DONE: &str = "{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"All green.\"}}\n{\"type\":\"turn.completed\",\"usage\":{}}\n";

/// A file in a directory of its own, with a simulated clock. Its wall clock makes files appear to be
/// from the future, so that only changes between checks give them an age.
struct Case {
    directory: tempfile::TempDir,
    file: OutputFile,
    now: Instant,
}

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = OutputFile::new(directory.path().join("agent.jsonl"), Timestamp::default());
        let now = Clock::system().now();
        Self {
            directory,
            file,
            now,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("agent.jsonl")
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.path()).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    /// Reads the file `seconds` later; returns the result and the number of bytes read.
    fn check(&mut self, seconds: u64) -> (Check, u64) {
        self.now += Duration::from_secs(seconds);
        let context = ReadContext {
            now: self.now,
            wall: Timestamp::from_micros(0),
            stable: STABLE,
        };
        let mut left = u64::MAX;
        let check = self.file.check(context, &mut left);
        (check, u64::MAX - left)
    }

    #[track_caller]
    fn warned(&mut self, word: &str) {
        let (check, _) = self.check(5);
        assert!(check.warnings.len() == 1, "{check:?}");
        assert!(check.warnings[0].contains(word), "{check:?}");
        assert_eq!(self.check(5).0.warnings.len(), 0, "reported again");
    }
}

fn completed(result: &str, evidence: &str) -> Option<Verdict> {
    Some(Verdict::Completed {
        result: result.to_owned(),
        evidence: evidence.to_owned(),
    })
}

#[test]
fn an_end_in_the_records_is_found() {
    let mut case = Case::new();
    assert_eq!(case.check(5).0.verdict, None);
    case.append("");
    assert_eq!(case.check(5).0.verdict, None);
    case.append(WORKS);
    for _ in 0..5 {
        assert_eq!(case.check(100).0.verdict, None, "however long");
    }
    let (cut, end) = DONE.split_at(DONE.len() - 9);
    case.append(cut);
    assert_eq!(case.check(5).0.verdict, None);
    // The last line without its end.
    case.append(end.trim_end());
    assert_eq!(case.check(5).0.verdict, None, "not held yet");
    let (check, read) = case.check(5);
    assert_eq!(check.verdict, completed("All green.", "turn.completed"));
    assert_eq!(read, 0, "nothing had changed");
    assert!(check.warnings.is_empty());
}

#[test]
fn only_what_was_added_is_read() {
    let mut case = Case::new();
    let filler = "{\"type\":\"item.updated\"}\n".repeat(100_000);
    case.append([WORKS, &filler, WORKS].concat());
    let (_, read) = case.check(5);
    assert_eq!(read, TAILS[0]);
    case.append(DONE);
    assert_eq!(case.check(5).1, DONE.len() as u64);
    assert!(case.check(5).0.verdict.is_some());
}

#[test]
fn a_file_of_a_gigabyte_costs_what_its_end_costs() {
    let mut case = Case::new();
    case.append(WORKS);
    let file = OpenOptions::new().write(true).open(case.path()).unwrap();
    file.set_len(ENORMOUS_BYTES + 1).unwrap();
    case.append(["\n", WORKS, &"x".repeat(300_000), "\n", DONE].concat());
    let (check, read) = case.check(5);
    assert!(read <= TAILS.iter().sum(), "{read} bytes were read");
    assert!(check.warnings[0].contains("only its end"), "{check:?}");
    assert!(case.check(5).0.verdict.is_some());
}

#[test]
fn changes_of_files_are_reported_once() {
    let mut case = Case::new();
    case.append(WORKS);
    assert!(case.check(5).0.warnings.is_empty());
    // Kept, so that its inode is not assigned to the next file.
    let aside = case.directory.path().join("aside");
    std::fs::rename(case.path(), aside).unwrap();
    case.warned("gone");
    // Larger, and with the same beginning: only the inode differs.
    case.append([WORKS, WORKS].concat());
    case.warned("replaced");
    std::fs::write(case.path(), &WORKS[..20]).unwrap();
    case.warned("shorter");
    let mut case = Case::new();
    case.append(b"\x28\xb5\x2f\xfdrest");
    case.warned("compressed");
    let mut case = Case::new();
    std::os::unix::fs::symlink("nowhere", case.path()).unwrap();
    case.warned("link to nothing");
    let mut case = Case::new();
    std::fs::create_dir(case.path()).unwrap();
    case.warned("no regular file");
}

#[test]
fn a_task_has_ended_when_its_file_is_deleted() {
    for (directory, name, is_task) in [
        ("tasks", "b1.output", true),
        ("tasks", "b1.jsonl", false),
        ("logs", "b1.output", false),
    ] {
        let mut case = Case::new();
        let directory = case.directory.path().join(directory);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join(name);
        case.file = OutputFile::new(path.clone(), Timestamp::default());
        std::fs::write(&path, "test 1 ok\ntest 2 ok\n").unwrap();
        assert_eq!(case.check(5).0.verdict, None);
        // Replaced, and missing during one check only.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(case.check(0).0.verdict, None);
        std::fs::write(&path, "test 1 ok\ntest 2 ok\ntest 3 ok\n").unwrap();
        assert_eq!(case.check(5).0.verdict, None, "it is there again");
        std::fs::remove_file(&path).unwrap();
        let (check, _) = case.check(0);
        assert_eq!(check.verdict, None, "not held yet");
        if !is_task {
            assert_eq!(case.check(100).0.verdict, None, "{path:?}");
            continue;
        }
        assert!(check.warnings.is_empty(), "{check:?}");
        let (check, _) = case.check(1);
        let why = "its output file was deleted, as it is when a task ends";
        assert_eq!(check.verdict, completed("test 3 ok", why));
        assert!(check.warnings.is_empty(), "{check:?}");
    }
}

#[test]
fn a_deleted_file_hides_no_failure() {
    let mut case = Case::new();
    let directory = case.directory.path().join("tasks");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("a1.output");
    case.file = OutputFile::new(path.clone(), Timestamp::default());
    let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"limit\"}}\n";
    std::fs::write(&path, [WORKS, failed].concat()).unwrap();
    assert_eq!(case.check(0).0.verdict, None);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(case.check(0).0.verdict, None);
    let Some(Verdict::Failed { error, evidence }) = case.check(1).0.verdict else {
        panic!("it has failed");
    };
    assert_eq!(error, "limit");
    assert!(evidence.contains("deleted"), "{evidence}");
}

#[test]
fn an_overwritten_file_is_read_again() {
    let mut case = Case::new();
    case.append([WORKS, DONE].concat());
    assert_eq!(case.check(0).0.verdict, None);
    // The same inode, larger, and other bytes.
    let other = [
        "{\"type\":\"thread.started\",\"thread_id\":\"2\"}\n{\"type\":\"turn.started\"}\n",
        &" ".repeat(400),
        "\n",
    ]
    .concat();
    std::fs::write(case.path(), other).unwrap();
    case.warned("replaced");
    assert_eq!(case.check(60).0.verdict, None);
}

#[test]
fn a_link_is_followed() {
    let mut case = Case::new();
    let target = case.directory.path().join("target");
    std::fs::write(&target, [WORKS, DONE].concat()).unwrap();
    std::os::unix::fs::symlink(&target, case.path()).unwrap();
    assert!(case.check(5).0.warnings.is_empty());
    assert!(case.check(5).0.verdict.is_some());
}

#[test]
fn silence_ends_output_of_unknown_formats() {
    for (text, result, evidence) in [
        ("compiling\nall done\n\n", "all done", "inferred"),
        ("{\"who\":1}\n", "{\"who\":1}", "inferred"),
        (
            "{\"message\":{\"stop_reason\":\"end_turn\"}}\n",
            "",
            "stop_reason end_turn",
        ),
        (
            "{\"note\":\"\\\"type\\\":\\\"result\\\"\"}\n",
            "",
            "inferred",
        ),
        (
            "{\"type\":\"result\",\"result\":\"ok\"}\n",
            "",
            "a record of type result",
        ),
    ] {
        let mut case = Case::new();
        case.append(text);
        assert_eq!(case.check(5).0.verdict, None, "{text}");
        let first = case.check(9).0.verdict;
        let Some(Verdict::Completed {
            result: found,
            evidence: why,
        }) = first.or_else(|| case.check(2).0.verdict)
        else {
            panic!("{text}: it has not ended");
        };
        assert!(why.starts_with(evidence), "{text}: {why}");
        assert!(found.contains(result), "{text}: {found}");
    }
}
