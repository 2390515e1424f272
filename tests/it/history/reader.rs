//! `log` on damaged and foreign files and files of later versions, with and without filters.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::{assert_wrong_usage, at, values};
use crate::cli::{Running, assert_code, ends_quietly_unread, program, run, text};

/// Returns a run whose newest file has these bytes.
fn run_with(data: &Path, bytes: &[u8]) -> PathBuf {
    let run = data.join("runs/job");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("events.jsonl"), bytes).unwrap();
    run
}

fn warning(seq: u64, millis: i64, id: &str, message: &str) -> String {
    let message = serde_json::to_string(message).unwrap();
    let ts = at(millis);
    format!(
        r#"{{"seq":{seq},"ts":"{ts}","event":{{"type":"Warning","execution_id":"{id}","context":"test","message":{message}}}}}"#
    )
}

#[track_caller]
fn log(data: &Path, more: &[&str]) -> Output {
    let args: Vec<&str> = ["log", "job"].iter().chain(more).copied().collect();
    run(&args, data)
}

#[test]
fn invalid_lines_are_skipped_counted_and_located() {
    let temp = tempfile::tempdir().unwrap();
    let (one, two, three) = (
        warning(1, 0, "job", "a"),
        warning(2, 1, "job", "b"),
        warning(3, 2, "job", "c"),
    );
    // An incomplete line that another one continues, nothing at all, zeros of a crash, text,
    // invalid UTF-8.
    let mut bytes = format!("{one}\n").into_bytes();
    let first_broken = bytes.len();
    bytes.extend(format!("{}{two}\n\n{two}\n", &two[..40]).into_bytes());
    bytes.extend([0; 4096]);
    bytes.extend(b"\nsome text\n\xff\xfe{}\n{\"seq\":2}\n");
    bytes.extend(format!("{three}\n{}", &warning(4, 3, "job", "d")[..50]).into_bytes());
    let run_path = run_with(temp.path(), &bytes);
    for of in [run_path.clone(), run_path.join("events.jsonl")] {
        let output = run(&["log", of.to_str().unwrap(), "--json"], temp.path());
        assert_eq!(text(&output.stdout), format!("{one}\n{two}\n{three}\n"));
        assert_code(&output, 0);
        let stderr = text(&output.stderr);
        assert!(stderr.contains("5 lines are no events"), "{stderr}");
        assert!(
            stderr.contains(&format!("byte {first_broken} ")),
            "{stderr}"
        );
        assert!(
            stderr.contains("events.jsonl") && stderr.contains("cut off"),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
    }
    // The same data, compressed.
    let packed = temp.path().join("packed.gz");
    let mut encoder = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::fast(),
    );
    std::io::Write::write_all(&mut encoder, &bytes).unwrap();
    encoder.finish().unwrap();
    let output = run(&["log", packed.to_str().unwrap(), "--json"], temp.path());
    assert_eq!(text(&output.stdout), format!("{one}\n{two}\n{three}\n"));
    assert!(
        text(&output.stderr).contains("5 lines are no events"),
        "{output:#?}"
    );
    // The same data, cut within the compressed part: the events before the cut are read, and an error
    // reports the rest.
    let half = fs::read(&packed).unwrap();
    fs::write(&packed, &half[..half.len() - 10]).unwrap();
    let output = run(&["log", packed.to_str().unwrap(), "--json"], temp.path());
    assert_code(&output, 1);
    assert!(text(&output.stderr).contains("packed.gz"), "{output:#?}");
}

#[test]
fn unknown_data_pass_unchanged() {
    let temp = tempfile::tempdir().unwrap();
    let lines = concat!(
        r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"job","loop_type":"Phase","task":"Add auth"}}"#,
        "\n",
        r#"{ "seq": 1, "event": {"execution_id":"job", "type":"FromTheFuture","x":[1, 2.50, 1e300, 12345678901234567890123], "é": "\u00e9\/"}, "ts":"2026-01-21T10:00:02+01:00","trace":null }"#,
        "\n",
        r#"{"seq":2,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"Warning","execution_id":"job","context":"c","message":"m","added":{"b":1,"a":2}},"n":3}"#,
        "\r\n",
        r#"{"seq":3,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"Warning","execution_id":"job","context":"c","message":"last"}}"#,
        "\n",
    );
    let expected = lines.replace("\r\n", "\n");
    run_with(temp.path(), lines.as_bytes());
    let output = log(temp.path(), &["--json"]);
    assert_code(&output, 0);
    let printed = text(&output.stdout).replace("\r\n", "\n");
    assert_eq!(printed, expected, "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{output:#?}");
    // The types of later versions and of embedders are selected like others.
    let selected = log(temp.path(), &["--json", "--type", "FromTheFuture"]);
    assert_code(&selected, 0);
    let second = lines.lines().nth(1).unwrap();
    assert_eq!(text(&selected.stdout), format!("{second}\n"));
    // A name that neither this version knows nor an event has is a mistake, and nothing is printed.
    for more in [
        &["--type", "Warming"][..],
        &["--json", "--type", "Warning,Warming"],
        &["--type", "Warming,Warning", "--grep", "last"],
    ] {
        let refused = log(temp.path(), more);
        assert_code(&refused, 2);
        assert_eq!(text(&refused.stdout), "", "{more:?}");
        let stderr = text(&refused.stderr);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for name in [
            "\"Warming\"; did you mean \"Warning\"?",
            "OutputUpdate",
            "LogOpened",
        ] {
            assert!(stderr.contains(name), "{name}: {stderr}");
        }
    }
    let refused = log(temp.path(), &["--execution", "job", "--execution", "jab"]);
    assert_code(&refused, 2);
    assert_eq!(text(&refused.stdout), "");
    assert!(text(&refused.stderr).contains("\"jab\""), "{refused:#?}");
    // `log --follow` cannot know whether one will come.
    let followed = log(temp.path(), &["-f", "--type", "Warming"]);
    assert_code(&followed, 0);
    assert!(text(&followed.stderr).contains("did you mean \"Warning\"?"));
}

#[test]
fn the_lines_of_a_prompt_are_lines() {
    let temp = tempfile::tempdir().unwrap();
    let prompt = r#"{"seq":1,"ts":"2026-01-21T10:00:00.000000Z","event":{"type":"PromptSent","execution_id":"job","iteration":1,"prompt_summary":"fix it:\n- one\r\n\n- two\u001b[31m\n","token_count":0}}"#;
    run_with(temp.path(), format!("{prompt}\n").as_bytes());
    let output = log(temp.path(), &[]);
    assert_code(&output, 0);
    let expected = "\
job | [prompt] fix it:
job |   - one
job |
job |   - two^[[31m
";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn filters_match_the_printed_text() {
    let temp = tempfile::tempdir().unwrap();
    let lines = [
        warning(1, 0, "job", "plain needle"),
        warning(2, 1000, "job", "a \"quoted\" needle\tand\ttabs"),
        warning(3, 2000, "other", "two\nlines of needle"),
        warning(4, 3000, "other", "an \u{1b}[31mescape"),
        // Other writers write the same letters differently.
        warning(5, 4000, "job", "a nee dle").replace("nee dle", "n\\u0065edle"),
        warning(6, 5000, "job", "漢字 needles"),
        warning(7, 6000, "job", r"back\slash/needle"),
        warning(8, 7000, "job", "nothing").replace("Warning", "Unheard"),
    ];
    run_with(temp.path(), (lines.join("\n") + "\n").as_bytes());
    for (more, expected) in [
        (&["--grep", "needle$"][..], vec![1, 3, 5, 7]),
        (&["--grep", "\"quoted\""], vec![2]),
        (&["--grep", "needle\tand"], vec![2]),
        (&["--grep", r"needle\tand"], vec![2]),
        (&["--grep", "^lines"], vec![3]),
        (&["--grep", "two\nlines"], vec![3]),
        (&["--grep", "\\x1b\\[31m"], vec![4]),
        (&["--grep", r"back\\slash/n"], vec![7]),
        (&["--grep", "字 n"], vec![6]),
        (&["--grep", "(?i)NEEDLE"], vec![1, 2, 3, 5, 6, 7]),
        // Filters match neither the JSON nor its names.
        (&["--grep", "seq"], vec![]),
        (&["--grep", "message"], vec![]),
        (&["--grep", r"\\t"], vec![]),
        (&["--type", "Warning"], vec![1, 2, 3, 4, 5, 6, 7]),
        (&["--grep", "nothing"], vec![8]),
        (&["--type", "LogGap", "--type", "OutputGap"], vec![]),
        (&["--execution", "other"], vec![3, 4]),
        (
            &["--execution", "other", "--execution", "job"],
            vec![1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (&["--since", "2026-01-21T10:00:04Z"], vec![5, 6, 7, 8]),
        (
            &[
                "--since",
                "2026-01-21T10:00:04.000001Z",
                "--until",
                "2026-01-21T10:00:06Z",
            ],
            vec![6],
        ),
        (&["--since", "1h"], vec![]),
        // The execution exists, but has no such event.
        (&["--execution", "other", "--type", "LogGap"], vec![]),
        (&["--execution", "other", "--since", "1h"], vec![]),
        (
            &["--until", "1h", "--grep", "needle$", "--execution", "job"],
            vec![1, 5, 7],
        ),
    ] {
        let args: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
        let code = i32::from(expected.is_empty() && more.contains(&"--grep"));
        let found = log(temp.path(), &args);
        assert_code(&found, code);
        let seq = |line: &serde_json::Value| line["seq"].as_u64().unwrap();
        let found: Vec<u64> = values(&found.stdout).iter().map(seq).collect();
        assert_eq!(found, expected, "{more:?}");
        // The console output has as many events.
        let shown = log(temp.path(), more);
        assert_code(&shown, code);
        assert_eq!(
            shown.stdout.is_empty(),
            expected.is_empty(),
            "{more:?}: {shown:#?}"
        );
    }
    let file = temp.path().join("runs/job/events.jsonl");
    for which in ["job", file.to_str().unwrap()] {
        let unknown = ["log", which, "--execution", "oth"];
        let expected = "--execution: no event here is of the execution \"oth\"";
        assert_wrong_usage(&run(&unknown, temp.path()), expected);
        let unknown = [&unknown[..], &["--grep", "a", "--json"]].concat();
        assert_wrong_usage(&run(&unknown, temp.path()), expected);
    }
    assert_wrong_usage(&log(temp.path(), &["--grep", "("]), "--grep");
    assert_wrong_usage(&log(temp.path(), &["--since", "soon"]), "--since");
}

#[test]
fn a_missing_run_is_a_one_line_error() {
    let temp = tempfile::tempdir().unwrap();
    let directory = run_with(temp.path(), b"");
    let path = |name: &str| directory.join(name).display().to_string();
    for (name, expected) in [
        ("nobody", "nobody"),
        (&*path("nothing.jsonl"), "nothing.jsonl"),
        ("/nowhere/at/all", "/nowhere"),
        // A directory that is no run.
        ("./", "no run"),
    ] {
        assert_wrong_usage(&run(&["log", name, "--json"], temp.path()), expected);
    }
    let file = path("events.jsonl");
    assert_wrong_usage(&run(&["log", &file, "--follow"], temp.path()), "--follow");
    let empty = run(&["log", "job"], temp.path());
    assert_code(&empty, 0);
    assert!(empty.stdout.is_empty() && empty.stderr.is_empty());
}

#[test]
fn a_broken_pipe_ends_quietly() {
    let temp = tempfile::tempdir().unwrap();
    let lines: String = (1..=20_000)
        .map(|seq| warning(seq, seq as i64, "job", "a line of some length") + "\n")
        .collect();
    run_with(temp.path(), lines.as_bytes());
    for args in [
        &["log", "job", "--json"][..],
        &["log", "job"],
        &["log", "job", "--follow"],
        &["replay", "job", "--speed", "1000000"],
        &["export", "job", "--format", "text"],
    ] {
        ends_quietly_unread(program(args, temp.path()));
    }
}

#[test]
fn a_named_pipe_does_not_block() {
    let temp = tempfile::tempdir().unwrap();
    let directory = run_with(temp.path(), b"");
    let events = directory.join("events.jsonl");
    let elsewhere = temp.path().join("elsewhere.jsonl");
    fs::write(&elsewhere, warning(1, 0, "job", "not of this run") + "\n").unwrap();
    let fifo = |path: &Path| {
        let made = std::process::Command::new("mkfifo")
            .arg(path)
            .status()
            .unwrap();
        assert!(made.success());
    };
    for kind in ["fifo", "link", "directory"] {
        fs::remove_file(&events).unwrap();
        match kind {
            "fifo" => fifo(&events),
            "link" => symlink(&elsewhere, &events).unwrap(),
            _ => fs::create_dir(&events).unwrap(),
        }
        for args in [
            &["log", "job", "--json"][..],
            &["log", "job", "--follow"],
            &["runs"],
            &["replay", "job"],
        ] {
            let output = Running::start(program(args, temp.path())).end();
            let code = output.status.code().unwrap();
            assert!(
                code == 1 || code == 2 || args == ["runs"],
                "{kind} {args:?}: {output:#?}"
            );
            let stderr = text(&output.stderr);
            assert!(
                stderr.contains("job") && stderr.lines().count() == 1,
                "{kind} {args:?}: {stderr}"
            );
            assert!(!text(&output.stdout).contains("not of this run"));
        }
        if kind == "directory" {
            fs::remove_dir(&events).unwrap();
        }
    }
    // A directory in place of a closed file is a problem, and the other files are read.
    fs::write(&events, warning(9, 0, "job", "the newest") + "\n").unwrap();
    fifo(&directory.join("events.000001.jsonl"));
    symlink(&elsewhere, directory.join("events.000002.jsonl")).unwrap();
    let output = log(temp.path(), &["--json"]);
    assert_code(&output, 1);
    assert!(
        text(&output.stdout).contains("the newest")
            && !text(&output.stdout).contains("not of this run")
    );
    let stderr = text(&output.stderr);
    assert!(stderr.contains("8 events are missing"), "{stderr}");
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}
