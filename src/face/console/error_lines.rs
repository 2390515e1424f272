//! Recognizes error messages in the output of programs (pure).

use std::sync::LazyLock;

use regex::Regex;

/// The longest line to search, in bytes: error messages for people are shorter.
const LINE_BYTES_MAX: usize = 2000;

/// The forms of error messages that are common to compilers, loggers, test runners and language runtimes.
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        ^\s*(?:\[?\S{0,30}\]?\s){0,3}\[?(?:ERROR|FATAL|CRITICAL|PANIC|FAILED|FAIL)(?-u:\b)
        | ^\s*(?:\S+:\s)?(?i:error|fatal|panic)(?:\[\w+\])?:\s
        | (?-u:\b)[A-Z]\w*(?:Error|Exception):\s
        | :\s(?:fatal\s)?error(?:\s\w+)?:\s
        | ^Traceback\ \(most\ recent
        | (?-u:\b)panicked\ at(?-u:\b)
        | ^\S{0,40}\s?\*\*\*\s.*(?-u:\b)Error(?-u:\b)
        | (?-u:\b)test\ result:\ FAILED
        | ^npm\ (?:ERR!|error)
        | ^=+\ .*(?-u:\b)[1-9]\d*\ (?:failed|error)",
    )
    .ok()
});

/// Returns true if a line resembles an error message.
pub(super) fn is_error_line(line: &str) -> bool {
    line.len() <= LINE_BYTES_MAX && ERROR.as_ref().is_some_and(|error| error.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_differ_from_text_about_errors() {
        for line in [
            "error: could not compile `demo` (bin \"demo\") due to 1 previous error",
            "error[E0308]: mismatched types",
            "main.c:3:5: error: expected ';' before 'return'",
            "main.c:3:5: fatal error: x.h: No such file or directory",
            "make: *** [Makefile:2: all] Error 2",
            "2026-11-23T16:00:00Z ERROR db: connection lost",
            "12:00:01 [ERROR] worker 3 died",
            "[2026-11-23 16:00:00] ERROR db: connection lost",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "thread 'main' panicked at src/main.rs:2:5:",
            "Traceback (most recent call last):",
            "ValueError: invalid literal for int()",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored",
            "=========== 1 failed, 3 passed in 0.12s ===========",
            "npm ERR! code ELIFECYCLE",
            "npm error code E404",
            "fatal: not a git repository",
        ] {
            assert!(is_error_line(line), "{line}");
        }
        for line in [
            "",
            "test result: ok. 12 passed; 0 failed; 0 ignored",
            "0 errors, 0 warnings",
            "all tests passed, no error",
            "I will look at the error in parser.rs and fix it.",
            "   Compiling thiserror v2.0.1",
            "warning: unused variable: `error`",
            "test errors_are_reported ... ok",
            "GET /error 200",
            "=========== 4 passed in 0.12s ===========",
        ] {
            assert!(!is_error_line(line), "{line}");
        }
        assert!(!is_error_line(&format!("error: {}", "x".repeat(3000))));
    }
}
