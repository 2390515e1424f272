//! Any bytes as the stored file of a session and later inputs of hooks, one per line: each new file is small,
//! can be parsed, and has a question of one line.

use td_observe::Timestamp;
use td_observe::internals::fuzzing::{hook_claim, hook_file_after, status_file_state};
use td_observe::redact::Rules;

/// The reader refuses a longer file.
const FILE_BYTES_MAX: usize = 64 * 1024;

pub fn run(bytes: &[u8]) {
    let rules = Rules::builtin();
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut kept = lines.next().map(<[u8]>::to_vec);
    for (line, second) in lines.zip(1..) {
        // These parsers must not panic on any input.
        let _ = status_file_state(line);
        let _ = hook_claim(line);
        let now = Timestamp::from_micros(second * 1_000_000);
        let after = hook_file_after(line, kept.as_deref(), now, &rules);
        if let Some(file) = after.as_ref().filter(|_| after != kept) {
            assert!(file.len() <= FILE_BYTES_MAX, "{} bytes", file.len());
            let Some((_, asks)) = hook_claim(file) else {
                panic!("not read again: {}", String::from_utf8_lossy(file))
            };
            let is_line = |text: &str| !text.contains(char::is_control);
            assert!(asks.is_none_or(|asks| is_line(&asks)));
        }
        kept = after;
    }
}
