//! `--junit`: files that an independent XML parser accepts, with one case for each command or check.

use std::path::Path;
use std::process::Command;

use super::program::{command, script};
use crate::cli::{assert_code, text};

/// Prints each case as `NAME|CLASS|OUTCOME|MESSAGE|STDOUT|STDERR`; expat reads the file.
const READER: &str = r#"
import re, sys, xml.etree.ElementTree as E
root = E.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites", root.tag
suite, = root
cases = list(suite)
for of in (root, suite):
    assert int(of.get("tests")) == len(cases)
    assert int(of.get("failures")) == sum(1 for c in cases if c.find("failure") is not None)
    assert int(of.get("errors")) == sum(1 for c in cases if c.find("error") is not None)
    float(of.get("time"))
# The attributes that the schema of the xUnit plugin of Jenkins has.
known = {"name", "time", "tests", "failures", "errors"}
assert set(root.attrib) <= known, root.attrib
assert set(suite.attrib) <= known | {"skipped", "timestamp"}, suite.attrib
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp")), suite.attrib
for case in cases:
    assert case.tag == "testcase" and float(case.get("time")) >= 0
    assert set(case.attrib) == {"name", "time", "classname"}, case.attrib
    assert {x.tag for x in case} <= {"failure", "error", "system-out", "system-err"}
    bad = [x for x in case if x.tag in ("failure", "error")]
    assert all(set(x.attrib) == {"type", "message"} for x in bad)
    out = case.findtext("system-out") or ""
    err = case.findtext("system-err") or ""
    print("|".join([case.get("name"), case.get("classname"), bad[0].tag if bad else "passed",
        bad[0].get("message") if bad else "", repr(out), repr(err)]))
"#;

/// Reads a report with Python's parser.
#[track_caller]
pub fn cases(path: &Path) -> Vec<String> {
    let output = Command::new("python3")
        .args(["-c", READER])
        .arg(path)
        .output()
        .unwrap();
    let report = std::fs::read_to_string(path).unwrap();
    assert!(
        output.status.success(),
        "{}\n{report}",
        text(&output.stderr)
    );
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_command_is_a_case_with_its_end_and_its_output() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("r.xml");
    let file = path.to_str().unwrap();
    for (line, code, expected) in [
        ("echo fine", 0, "run|passed||'fine\\n'|''"),
        (
            r#"printf '\033[31m<a&b>\033[m\0]]>\n'; echo '"bad"' >&2; exit 2"#,
            2,
            r"run|failure|exit code 2|'<a&b>",
        ),
        (
            "kill -KILL $$; :",
            137,
            "run|failure|ended by signal 9|''|''",
        ),
    ] {
        let output = script(&["--junit", file], line, data.path());
        assert_code(&output, code);
        let cases = cases(&path);
        assert_eq!(cases.len(), 1, "{cases:?}");
        assert!(cases[0].contains(expected), "{line}: {cases:?}");
    }
    let options = ["--junit", file, "--timeout", "300ms"];
    assert_code(&script(&options, "exec sleep 1000", data.path()), 124);
    assert!(
        cases(&path)[0].contains("did not end within"),
        "{:?}",
        cases(&path)
    );
    let missing = command(
        &["--junit", file, "--", "td-no-such-program", "x"],
        data.path(),
    );
    assert_code(&crate::cli::Running::start(missing).end(), 127);
    let found = cases(&path);
    assert!(
        found[0].starts_with("td-no-such-program x|run|error|"),
        "{found:?}"
    );
    let report = std::fs::read_to_string(&path).unwrap();
    assert!(
        report.contains("<testsuite name=\"td-no-such-program\""),
        "{report}"
    );
    assert!(!report.contains("timestamp=\"1970-"), "{report}");
}

#[test]
fn secrets_are_not_in_the_report() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("r.xml");
    let secret = ["ghp_", "abcdefghijklmnopqrst", "uvwxyz0123456789AB"].concat();
    let line = format!("echo {secret}; exit 1");
    assert_code(
        &script(&["--junit", path.to_str().unwrap()], &line, data.path()),
        1,
    );
    let report = std::fs::read_to_string(&path).unwrap();
    assert!(
        report.contains("[redacted:") && !report.contains(&secret),
        "{report}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let data = tempfile::tempdir().unwrap();
    let ran = data.path().join("ran");
    let output = script(
        &["--junit", "/no/such/directory/r.xml"],
        &format!("touch {}", ran.display()),
        data.path(),
    );
    assert_code(&output, 125);
    assert!(text(&output.stderr).starts_with("td-observe: --junit: cannot write"));
    assert!(!ran.exists());
}

#[test]
fn a_success_whose_report_cannot_be_written_is_none() {
    let data = tempfile::tempdir().unwrap();
    for (line, code) in [("true", 1), ("exit 3", 3)] {
        let output = script(&["--junit", "/dev/full"], line, data.path());
        assert_code(&output, code);
        let error = text(&output.stderr);
        assert!(
            error.starts_with("td-observe: --junit: cannot write \"/dev/full\""),
            "{error}"
        );
    }
}

#[test]
fn an_earlier_report_survives_a_command_that_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("r.xml");
    std::fs::write(&path, "earlier").unwrap();
    let file = path.to_str().unwrap();
    let missing = ["--junit", file, "--redact", "/nowhere/rules.toml"];
    assert_code(&script(&missing, "true", data.path()), 125);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "earlier");
}

#[test]
fn each_check_of_a_loop_is_a_case() {
    let data = tempfile::tempdir().unwrap();
    let (path, count) = (data.path().join("r.xml"), data.path().join("n"));
    let agent = format!("cat > /dev/null; echo x >> {}", count.display());
    let check = format!("wc -l < {n}; test $(wc -l < {n}) = 2", n = count.display());
    let args = [
        "loop",
        "--task",
        "t",
        "--as",
        "text",
        "--agent",
        &agent,
        "--check",
        &check,
        "--junit",
        path.to_str().unwrap(),
    ];
    assert_code(&crate::cli::run(&args, data.path()), 0);
    let cases = cases(&path);
    assert_eq!(cases.len(), 2, "{cases:?}");
    assert!(
        cases[0].starts_with("iteration 1: wc") && cases[0].contains("|failure|exit code 1|'1\\n'"),
        "{cases:?}"
    );
    assert!(
        cases[1].starts_with("iteration 2: wc") && cases[1].contains("|passed||'2\\n'"),
        "{cases:?}"
    );
}
