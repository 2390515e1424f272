//! A program that writes and draws like Claude Code at work, without end and without a model.
//!
//! Its executable is a copy of this binary with the name `claude`, by which the observer finds it.

use std::fs::{self, OpenOptions};
use std::io::{Write, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use td_observe::Timestamp;

use super::program::Program;

/// The interval between two frames, as of real agents at work.
const FRAME: Duration = Duration::from_millis(100);
/// The number of frames between two records of the transcript: real agents write one or two a second.
const RECORD_FRAMES: u64 = 5;
/// The number of frames between two updates of the status file.
const STATUS_FRAMES: u64 = 20;

/// Returns the command that starts an agent with its home and working directory below this one.
pub fn command(temp: &Path) -> String {
    let claude = temp.join("claude");
    if !claude.exists() {
        fs::copy(std::env::current_exe().unwrap(), &claude).unwrap();
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let command = Program::Agent.command();
    let arguments = command.split_once(" print-in-a-pane ").unwrap().1;
    format!(
        "HOME='{}' exec '{}' print-in-a-pane {arguments}",
        temp.display(),
        claude.display()
    )
}

pub fn run() {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let directory = std::env::current_dir().unwrap();
    let is_plain = |char: char| char.is_ascii_alphanumeric();
    let slug: String = directory
        .to_str()
        .unwrap()
        .chars()
        .map(|char| if is_plain(char) { char } else { '-' })
        .collect();
    let pid = std::process::id();
    let session = format!("00000000-0000-4000-8000-{pid:012}");
    let project = home.join(".claude/projects").join(slug);
    let sessions = home.join(".claude/sessions");
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&sessions).unwrap();
    let status = sessions.join(format!("{pid}.json"));
    let transcript = project.join(format!("{session}.jsonl"));
    let mut transcript = OpenOptions::new()
        .create(true)
        .append(true)
        .open(transcript)
        .unwrap();
    print!("\x1b[?1049h\x1b[2J");
    for frame in 0_u64.. {
        print!(
            "\x1b[20;1H✻ Working… ({}s · esc to interrupt)\x1b[K\x1b[22;1H❯ ",
            frame / 10
        );
        stdout().flush().unwrap();
        if frame % STATUS_FRAMES == 0 {
            let text = format!(
                r#"{{"pid":{pid},"sessionId":"{session}","cwd":"{}","status":"busy","statusUpdatedAt":{}}}"#,
                directory.display(),
                now().micros() / 1000
            );
            fs::write(&status, text).unwrap();
        }
        if frame % RECORD_FRAMES == 0 {
            let record = record(frame / RECORD_FRAMES, &session);
            transcript.write_all(record.as_bytes()).unwrap();
        }
        thread::sleep(FRAME);
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros() as i64)
}

/// Returns the records of an endless turn: a prompt, then text, a tool and its result, repeatedly.
fn record(number: u64, session: &str) -> String {
    let now = now();
    let common = format!(r#""sessionId":"{session}","version":"2.1.330","timestamp":"{now}""#);
    let text = "I have looked at the files and found what is wrong with them. ".repeat(6);
    let (kind, content) = match (number, number % 3) {
        (0, _) => (
            "user",
            r#""content":"please find what is wrong""#.to_owned(),
        ),
        (_, 1) => (
            "assistant",
            format!(r#""content":[{{"type":"text","text":"{text}"}}]"#),
        ),
        (_, 2) => (
            "assistant",
            format!(
                r#""content":[{{"type":"tool_use","id":"t{number}","name":"Bash","input":{{"command":"make {number}"}}}}]"#
            ),
        ),
        _ => (
            "user",
            format!(
                r#""content":[{{"type":"tool_result","tool_use_id":"t{}","content":"{text}"}}]"#,
                number - 1
            ),
        ),
    };
    let model = match kind {
        "assistant" => format!(
            r#""id":"m{number}","model":"mock","stop_reason":null,"usage":{{"input_tokens":9,"output_tokens":9}},"#
        ),
        _ => String::new(),
    };
    format!(
        "{{\"type\":\"{kind}\",{common},\"message\":{{\"role\":\"{kind}\",{model}{content}}}}}\n"
    )
}
