//! Any text as reports of a program's status (OSC 7501), one on each line: what is shown of them is short, of one line, and
//! bounded.

use td_observe::internals::fuzzing::status_reports;

/// The most children that a face shows of one program, and the longest text.
const CHILDREN_MAX: usize = 256;
const TEXT_BYTES_MAX: usize = 4096;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (children, texts) = status_reports(text.split('\n'));
    assert!(children <= CHILDREN_MAX, "{children} children");
    for text in texts {
        assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
